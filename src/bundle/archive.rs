//! The bundle's zip file, written entry by entry in a task of its own, so that compression blocks no async task.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::BundleError;
use super::seal::Hashing;

/// Maximum chunks waiting to be written; with [`CHUNK`] this bounds the memory.
const WAITING: usize = 16;
/// Bytes per chunk.
pub(super) const CHUNK: usize = 256 << 10;
/// Favours speed over size: series are repetitive, and the user waits. For 2 GB of series, level 1 gives 102 MB,
/// level 2 gives 73 MB with a fifth more work, level 6 gives 64 MB with twice the work.
const LEVEL: i64 = 2;

enum Step {
    Begin(String),
    Bytes(Vec<u8>),
    Seal(Seal),
}

/// Makes the last entries from the checksums of all others.
type Seal = Box<dyn FnOnce(BTreeMap<String, String>) -> Vec<(&'static str, Vec<u8>)> + Send>;

/// A zip file that is being written.
#[derive(Debug)]
pub(super) struct Archive {
    steps: mpsc::Sender<Step>,
    writing: tokio::task::JoinHandle<Result<u64, BundleError>>,
    failed: Failed,
    /// Used names in lower case: the file systems of Windows and macOS ignore case.
    taken: Mutex<HashSet<String>>,
}

/// The reason why writing ended early; the first caller that notices takes it.
type Failed = Arc<Mutex<Option<BundleError>>>;

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Begin(name) => write!(f, "Begin({name})"),
            Self::Bytes(bytes) => write!(f, "Bytes({})", bytes.len()),
            Self::Seal(_) => write!(f, "Seal"),
        }
    }
}

impl Archive {
    /// Creates the file of at most `most` bytes, readable by its owner only; replaces an existing file.
    ///
    /// # Errors
    /// If it cannot be created.
    pub(super) fn create(path: &Path, most: u64) -> Result<Self, BundleError> {
        let mut options = File::options();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path).map_err(|error| BundleError::Disk(path.display().to_string(), error))?;
        let (steps, taken) = mpsc::channel(WAITING);
        let path = path.display().to_string();
        let failed = Failed::default();
        let tell = Arc::clone(&failed);
        let writing = tokio::task::spawn_blocking(move || {
            // The sender learns of the failure by the closed channel, so the reason must be set before the channel is
            // dropped.
            let mut taken = taken;
            write(Bounded { file, left: most, broken: false }, &mut taken).map_err(|error| {
                let again = std::io::Error::new(error.kind(), error.to_string());
                *tell.lock().unwrap_or_else(PoisonError::into_inner) = Some(BundleError::Disk(path.clone(), again));
                BundleError::Disk(path, error)
            })
        });
        Ok(Self { steps, writing, failed, taken: Mutex::default() })
    }

    /// Reserves a name as close to this one as is safe, which no other entry has.
    pub(super) fn free(&self, name: &str) -> String {
        let name = entry(name);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let (stem, ending) = split(&name);
        let mut free = name.clone();
        let mut number = 1;
        while !taken.insert(free.to_lowercase()) {
            number += 1;
            free = format!("{stem}-{number}{ending}");
        }
        free
    }

    /// Adds a whole file. Names from outside go through [`Self::free`] first: a duplicate entry is an error.
    ///
    /// # Errors
    /// If the archive cannot be written any more.
    pub(super) async fn add(&self, name: &str, bytes: impl Into<Vec<u8>>) -> Result<u64, BundleError> {
        let bytes = bytes.into();
        let length = bytes.len() as u64;
        self.begin(name).await?;
        self.write(bytes).await?;
        Ok(length)
    }

    /// Starts a file whose content follows in chunks; it ends where the next file starts.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub(super) async fn begin(&self, name: &str) -> Result<(), BundleError> {
        self.steps.send(Step::Begin(name.to_owned())).await.map_err(|_| self.lost())
    }

    /// Adds the next chunk.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub(super) async fn write(&self, bytes: Vec<u8>) -> Result<(), BundleError> {
        self.steps.send(Step::Bytes(bytes)).await.map_err(|_| self.lost())
    }

    /// Adds the last entries, which are made from the checksums of all others.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub(super) async fn seal(
        &self,
        seal: impl FnOnce(BTreeMap<String, String>) -> Vec<(&'static str, Vec<u8>)> + Send + 'static,
    ) -> Result<(), BundleError> {
        self.steps.send(Step::Seal(Box::new(seal))).await.map_err(|_| self.lost())
    }

    /// Returns the reason why nothing more can be written.
    fn lost(&self) -> BundleError {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or(BundleError::Stopped)
    }

    /// Returns a writer for blocking code; nothing else may be added while it is in use.
    pub(super) fn pipe(&self) -> Pipe {
        Pipe { steps: self.steps.clone(), buffer: Vec::with_capacity(CHUNK) }
    }

    /// Completes the file and returns its size in bytes.
    ///
    /// # Errors
    /// If it cannot be written completely; also returns the cause where an earlier call returned only `Stopped`.
    pub(super) async fn finish(self) -> Result<u64, BundleError> {
        drop(self.steps);
        self.writing.await.unwrap_or(Err(BundleError::Stopped))
    }
}

/// A file with a maximum size. After an error it accepts and discards all bytes: the zip writer tries to complete the
/// file when dropped, and would print an error to standard error.
struct Bounded {
    file: File,
    left: u64,
    broken: bool,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.broken {
            return Ok(bytes.len());
        }
        let written = match self.left.checked_sub(bytes.len() as u64) {
            Some(left) => {
                self.left = left;
                self.file.write_all(bytes)
            }
            None => Err(std::io::ErrorKind::FileTooLarge.into()),
        };
        self.broken = written.is_err();
        written.map(|()| bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

impl Seek for Bounded {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.file.seek(to)
    }
}

fn write(file: Bounded, steps: &mut mpsc::Receiver<Step>) -> std::io::Result<u64> {
    let mut zip = ZipWriter::new(BufWriter::new(file));
    let options = SimpleFileOptions::default().compression_level(Some(LEVEL)).large_file(true).unix_permissions(0o644);
    let mut entries: Vec<(String, Hashing)> = Vec::new();
    while let Some(step) = steps.blocking_recv() {
        match step {
            Step::Begin(name) => {
                zip.start_file(&*name, options)?;
                entries.push((name, Hashing::default()));
            }
            Step::Bytes(bytes) => {
                zip.write_all(&bytes)?;
                entries.last_mut().map(|(_, hashing)| hashing.write_all(&bytes)).transpose()?;
            }
            Step::Seal(seal) => {
                let entries = std::mem::take(&mut entries);
                for (name, bytes) in seal(entries.into_iter().map(|(name, hash)| (name, hash.finish())).collect()) {
                    zip.start_file(name, options)?;
                    zip.write_all(&bytes)?;
                }
            }
        }
    }
    let file = zip.finish()?.into_inner().map_err(|e| e.into_error())?;
    file.file.sync_all()?;
    Ok(file.file.metadata()?.len())
}

/// Maximum characters of one path component.
const PART: usize = 120;
/// Device names, which Windows reserves with any extension.
/// Source: <https://learn.microsoft.com/windows/win32/fileio/naming-a-file>
const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];

/// Returns a safe path inside the archive: relative, without `..`, of printable characters, allowed on Windows.
pub(super) fn entry(name: &str) -> String {
    let fine = |c: char| if c.is_ascii_alphanumeric() || "-_.+@=,".contains(c) { c } else { '_' };
    let part = |part: &str| -> String {
        let clean: String = part.chars().map(fine).collect();
        let (stem, ending) = split(&clean);
        let clean: String = stem.chars().take(PART - ending.len()).chain(ending.chars()).collect();
        // Windows removes trailing dots; `.` and `..` are other directories.
        let trimmed = clean.trim_end_matches('.');
        let clean = format!("{trimmed}{}", "_".repeat(clean.len() - trimmed.len()));
        if is_device(&clean) { format!("_{clean}") } else { clean }
    };
    name.split('/').filter(|p| !p.is_empty()).map(part).collect::<Vec<_>>().join("/")
}

/// Splits a name into stem and extension, as in `pods` and `.json`.
fn split(name: &str) -> (&str, &str) {
    match name.rfind('.') {
        Some(at) if at > 0 && name.len() - at <= 6 && !name[at..].contains('/') => name.split_at(at),
        _ => (name, ""),
    }
}

fn is_device(part: &str) -> bool {
    let stem = part.split('.').next().unwrap_or_default().to_lowercase();
    let port =
        |kind: &str| stem.strip_prefix(kind).is_some_and(|n| n.len() == 1 && n.bytes().all(|b| b.is_ascii_digit()));
    DEVICES.contains(&stem.as_str()) || port("com") || port("lpt")
}

/// A writer into the archive for a blocking thread.
#[derive(Debug)]
pub(super) struct Pipe {
    steps: mpsc::Sender<Step>,
    buffer: Vec<u8>,
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= CHUNK {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let bytes = std::mem::replace(&mut self.buffer, Vec::with_capacity(CHUNK));
        self.steps.blocking_send(Step::Bytes(bytes)).map_err(|_| std::io::ErrorKind::BrokenPipe.into())
    }
}
