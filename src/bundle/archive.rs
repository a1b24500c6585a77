//! The file itself: a zip that a task of its own writes, entry by entry, so that nobody's loop waits for compression.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, Seek, SeekFrom, Write};
use std::path::Path;

use tokio::sync::mpsc;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::BundleError;

/// Chunks on their way to the disk at most; with [`CHUNK`] this bounds the memory.
const WAITING: usize = 16;
/// Bytes of a chunk.
pub(super) const CHUNK: usize = 256 << 10;
/// Fast rather than small: series are repetitive, and somebody waits.
const LEVEL: i64 = 1;

enum Step {
    Begin(String),
    Bytes(Vec<u8>),
}

/// A zip being written.
#[derive(Debug)]
pub(super) struct Archive {
    steps: mpsc::Sender<Step>,
    writing: tokio::task::JoinHandle<Result<u64, BundleError>>,
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Begin(name) => write!(f, "Begin({name})"),
            Self::Bytes(bytes) => write!(f, "Bytes({})", bytes.len()),
        }
    }
}

impl Archive {
    /// Makes the file, readable by its owner alone and never longer than `most` bytes; what stood there is replaced.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(super) fn create(path: &Path, most: u64) -> Result<Self, BundleError> {
        let mut options = File::options();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path).map_err(|error| BundleError::Disk(path.display().to_string(), error))?;
        let (steps, taken) = mpsc::channel(WAITING);
        let path = path.display().to_string();
        let writing = tokio::task::spawn_blocking(move || write(file, most, taken).map_err(|e| trouble(path, most, e)));
        Ok(Self { steps, writing })
    }

    /// A whole file.
    ///
    /// # Errors
    /// When the archive cannot be written any more.
    pub(super) async fn add(&self, name: &str, bytes: impl Into<Vec<u8>>) -> Result<u64, BundleError> {
        let bytes = bytes.into();
        let length = bytes.len() as u64;
        self.begin(name).await?;
        self.write(bytes).await?;
        Ok(length)
    }

    /// A file whose content follows in pieces; it ends where the next one begins.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub(super) async fn begin(&self, name: &str) -> Result<(), BundleError> {
        self.steps.send(Step::Begin(entry(name))).await.map_err(|_| BundleError::Stopped)
    }

    /// The next piece.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub(super) async fn write(&self, bytes: Vec<u8>) -> Result<(), BundleError> {
        self.steps.send(Step::Bytes(bytes)).await.map_err(|_| BundleError::Stopped)
    }

    /// A way in for a blocking writer, beside which nothing else may be added.
    pub(super) fn pipe(&self) -> Pipe {
        Pipe { steps: self.steps.clone(), buffer: Vec::with_capacity(CHUNK), written: 0 }
    }

    /// Completes the file; its size in bytes.
    ///
    /// # Errors
    /// When it cannot be written to its end: also what an earlier call only called stopped.
    pub(super) async fn finish(self) -> Result<u64, BundleError> {
        drop(self.steps);
        self.writing.await.unwrap_or(Err(BundleError::Stopped))
    }
}

fn trouble(path: String, most: u64, error: std::io::Error) -> BundleError {
    match error.kind() {
        ErrorKind::FileTooLarge => BundleError::NoRoom(format!(
            "the bundle {path} would be larger than the {} MiB that it may take: see `bundle:` in the configuration",
            most >> 20
        )),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            BundleError::NoRoom(format!("the disk is full while writing {path}: free some, or set `bundle.dir`"))
        }
        _ => BundleError::Disk(path, error),
    }
}

/// A file that does not grow beyond a bound.
struct Bounded {
    file: File,
    at: u64,
    most: u64,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.at + bytes.len() as u64 > self.most {
            return Err(ErrorKind::FileTooLarge.into());
        }
        let n = self.file.write(bytes)?;
        self.at += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

impl Seek for Bounded {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.at = self.file.seek(to)?;
        Ok(self.at)
    }
}

fn write(file: File, most: u64, mut steps: mpsc::Receiver<Step>) -> std::io::Result<u64> {
    let mut zip = ZipWriter::new(BufWriter::new(Bounded { file, at: 0, most }));
    let options = SimpleFileOptions::default().compression_level(Some(LEVEL)).large_file(true).unix_permissions(0o644);
    while let Some(step) = steps.blocking_recv() {
        match step {
            Step::Begin(name) => zip.start_file(name, options).map_err(std::io::Error::from)?,
            Step::Bytes(bytes) => zip.write_all(&bytes)?,
        }
    }
    let file = zip.finish().map_err(std::io::Error::from)?.into_inner().map_err(|e| e.into_error())?.file;
    file.sync_all()?;
    Ok(file.metadata()?.len())
}

/// A safe path inside the archive: no way up, no root, nothing unseen, no name that Windows refuses.
pub(super) fn entry(name: &str) -> String {
    let part = |part: &str| -> String {
        let fine = |c: char| if c.is_ascii_alphanumeric() || "-_.+@=,".contains(c) { c } else { '_' };
        let clean: String = part.chars().map(fine).take(120).collect();
        if clean.chars().all(|c| c == '.') { "_".repeat(clean.len()) } else { clean }
    };
    name.split('/').filter(|p| !p.is_empty()).map(part).collect::<Vec<_>>().join("/")
}

/// Writes into the archive from a blocking thread.
#[derive(Debug)]
pub(super) struct Pipe {
    steps: mpsc::Sender<Step>,
    buffer: Vec<u8>,
    written: u64,
}

impl Pipe {
    /// Bytes so far.
    pub(super) fn written(&self) -> u64 {
        self.written
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        self.written += bytes.len() as u64;
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
