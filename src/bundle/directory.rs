//! The bundle directory. Each file is either complete or absent.
//!
//! A file name holds incident and time, so the directory needs no index. A bundle is written under a temporary name
//! and renamed when it is complete; the writer holds a lock, which distinguishes an unfinished file of a crash from
//! one in progress.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use super::BundleError;
use knowledge::clock;
use knowledge::signal::{Unit, format_value};
use service::config::BundleConfig;

/// The prefix of a bundle's file name.
const BEGINNING: &str = "llm-diagnose-";
const END: &str = ".zip";
/// The suffix of an unfinished bundle.
const UNFINISHED: &str = ".part";
/// The time format: to the second, sortable, and valid on every file system.
const TIME: &str = "%Y%m%dT%H%M%SZ";
/// Maximum characters of an id.
const ID_CHARS: usize = 64;
/// Minimum free bytes to start a bundle.
const LEAST: u64 = 8 << 20;
/// Bytes freed at a time when the store's disk is full.
const GIVEN_UP: u64 = 32 << 20;
/// Maximum bundles written concurrently; they share the free space.
pub const AT_ONCE: usize = 2;

/// A bundle's file name: `llm-diagnose-<incident>-<time>.zip`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// The incident's id or the pool's name: letters, digits and hyphens.
    pub of: String,
    /// The start time, to the second.
    pub at: Timestamp,
}

impl Name {
    /// Parses a file name; `None` if it is not the name of a bundle.
    pub fn read(text: &str) -> Option<Self> {
        let (of, at) = text.strip_prefix(BEGINNING)?.strip_suffix(END)?.rsplit_once('-')?;
        let fine = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let at = jiff::civil::DateTime::strptime(TIME, at).ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp();
        let name = Self { of: of.to_owned(), at };
        // Rejects other spellings of the same time.
        (!of.is_empty() && of.len() <= ID_CHARS && of.chars().all(fine) && name.to_string() == text).then_some(name)
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{BEGINNING}{}-{}{END}", self.of, self.at.strftime(TIME))
    }
}

/// A stored bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBundle {
    /// Its name.
    pub name: Name,
    /// Its size in bytes.
    pub bytes: u64,
}

/// The bundle directory with its limits.
#[derive(Debug)]
pub struct BundleDirectory {
    /// Its path.
    pub dir: PathBuf,
    /// The limits.
    pub config: BundleConfig,
    /// True if it is on the store's disk.
    beside_store: bool,
}

impl BundleDirectory {
    /// Creates the directory, accessible by its owner only, and removes unfinished bundles of a crash.
    ///
    /// # Errors
    /// If it cannot be created or read.
    pub fn open(config: &BundleConfig, state_dir: &Path) -> Result<Self, BundleError> {
        let dir = if config.dir.as_os_str().is_empty() { state_dir.join("bundles") } else { config.dir.clone() };
        let failed = |error| BundleError::Disk(dir.display().to_string(), error);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(failed)?;
        // A directory that existed before may be accessible to others.
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).map_err(failed)?;
        for entry in fs::read_dir(&dir).map_err(failed)?.flatten() {
            let name = entry.file_name();
            let unfinished = name.to_str().and_then(|name| name.strip_suffix(UNFINISHED)).and_then(Name::read);
            if unfinished.is_some() && File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok()) {
                tracing::info!(file = %entry.path().display(), "removed a bundle that was never finished");
                let _ = fs::remove_file(entry.path());
            }
        }
        let device = |path: &Path| fs::metadata(path).map(|data| data.dev());
        let beside_store = device(&dir).ok() == device(state_dir).ok();
        Ok(Self { dir, config: config.clone(), beside_store })
    }

    /// Returns the name of a bundle that starts now.
    pub fn new_name(&self, of: &str, now: Timestamp) -> Name {
        Name { of: of.to_owned(), at: clock::floor(now, Duration::from_secs(1)) }
    }

    /// Returns the path of a bundle; a parsed name cannot lead out of the directory.
    pub fn path(&self, name: &Name) -> PathBuf {
        self.dir.join(name.to_string())
    }

    /// Lists the bundles, oldest first; only those of `of` if it is given.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn list(&self, of: Option<&str>) -> io::Result<Vec<StoredBundle>> {
        let mut bundles = Vec::new();
        for entry in fs::read_dir(&self.dir)?.flatten() {
            let Some(name) = entry.file_name().to_str().and_then(Name::read) else { continue };
            if of.is_some_and(|of| of != name.of) {
                continue;
            }
            // Links are not followed: we create none here.
            let Ok(data) = fs::symlink_metadata(entry.path()) else { continue };
            if data.is_file() {
                bundles.push(StoredBundle { name, bytes: data.len() });
            }
        }
        bundles.sort_by(|first, other| (first.name.at, &first.name.of).cmp(&(other.name.at, &other.name.of)));
        Ok(bundles)
    }

    /// Removes expired bundles, and the oldest ones while the total size is over the limit.
    ///
    /// # Errors
    /// If the directory cannot be read, or a file cannot be removed.
    pub fn tidy(&self, now: Timestamp) -> io::Result<usize> {
        let bundles = self.list(None)?;
        let oldest = clock::before(now, self.config.keep);
        let mut total_bytes: u64 = bundles.iter().map(|bundle| bundle.bytes).sum();
        let mut removed = 0;
        for StoredBundle { name, bytes } in bundles {
            if name.at >= oldest && total_bytes <= self.config.keep_bytes {
                break;
            }
            match fs::remove_file(self.path(&name)) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            tracing::info!(bundle = %name, "removed a bundle: too old, or all together too large");
            (total_bytes, removed) = (total_bytes - bytes, removed + 1);
        }
        Ok(removed)
    }

    /// Removes the oldest bundles until 32 MiB are freed, if they share the store's disk. Returns how many were
    /// removed.
    ///
    /// # Errors
    /// If the directory cannot be read, or a file cannot be removed.
    pub fn give_way(&self) -> io::Result<usize> {
        if !self.beside_store {
            return Ok(0);
        }
        let (mut removed, mut freed) = (0, 0);
        for StoredBundle { name, bytes } in self.list(None)? {
            match fs::remove_file(self.path(&name)) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                // The space freed so far already helps the store.
                Err(_) if removed > 0 => break,
                Err(error) => return Err(error),
            }
            (removed, freed) = (removed + 1, freed + bytes);
            if freed >= GIVEN_UP {
                break;
            }
        }
        Ok(removed)
    }

    /// Removes old bundles and starts a new one.
    ///
    /// # Errors
    /// If there is too little space, with a message for users; or the disk fails.
    pub fn begin(&self, of: &str, now: Timestamp) -> Result<Draft, BundleError> {
        let failed = |error| BundleError::Disk(self.dir.display().to_string(), error);
        self.tidy(now).map_err(failed)?;
        let BundleConfig { keep_bytes, min_free_bytes, .. } = self.config;
        let room = room(&self.dir, min_free_bytes)? / AT_ONCE as u64;
        Draft::new(self.path(&self.new_name(of, now)), room.min(keep_bytes), min_free_bytes)
    }
}

/// Returns how many bytes may be written into a directory.
///
/// # Errors
/// If it is too little, with a message for users; or the free space cannot be read.
pub fn room(dir: &Path, min_free_bytes: u64) -> Result<u64, BundleError> {
    let free = free(dir).map_err(|error| BundleError::Disk(dir.display().to_string(), error))?;
    match free.saturating_sub(min_free_bytes) {
        room if room < LEAST => Err(no_room(dir, free, min_free_bytes)),
        room => Ok(room),
    }
}

fn free(dir: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(dir)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

fn no_room(dir: &Path, free: u64, min_free_bytes: u64) -> BundleError {
    BundleError::NoRoom(format!(
        "there is no room for a bundle in {}: {} are free, and {} must stay free (`bundle.min_free_bytes`); remove \
         something there, or set `bundle.dir` to a larger disk",
        dir.display(),
        format_bytes(free),
        format_bytes(min_free_bytes),
    ))
}

fn format_bytes(bytes: u64) -> String {
    format_value(bytes as f64, Unit::Bytes)
}

/// A bundle that is being written; its temporary file is removed on drop.
#[derive(Debug)]
pub struct Draft {
    /// The path to write to.
    pub part: PathBuf,
    path: PathBuf,
    min_free_bytes: u64,
    /// Maximum bytes of the file.
    pub most: u64,
    /// Held to show that the file is still being written.
    _lock: File,
}

impl Draft {
    /// Creates and locks the temporary file beside `path`.
    ///
    /// # Errors
    /// If the file cannot be created or locked.
    pub fn new(path: PathBuf, most: u64, min_free_bytes: u64) -> Result<Self, BundleError> {
        let mut part = path.clone().into_os_string();
        part.push(UNFINISHED);
        let part = PathBuf::from(part);
        let failed = |error| BundleError::Disk(part.display().to_string(), error);
        let mut options = File::options();
        options.write(true).create(true).truncate(false).mode(0o600);
        let lock = options.open(&part).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { part, path, min_free_bytes, most, _lock: lock }),
            Err(error) => Err(failed(error.into())),
        }
    }

    /// Gives the file its final name, which must be free unless `replace`. Returns the path.
    ///
    /// # Errors
    /// If that fails, or the name is taken.
    pub fn publish(self, replace: bool) -> Result<PathBuf, BundleError> {
        let path = self.path.clone();
        // A hard link refuses an existing name atomically; a file system without them needs the check.
        let done = match replace {
            true => fs::rename(&self.part, &path),
            false => match fs::hard_link(&self.part, &path) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists && !path.exists() => {
                    fs::rename(&self.part, &path)
                }
                linked => linked,
            },
        };
        done.map_err(|error| BundleError::Disk(path.display().to_string(), error))?;
        if let Some(dir) = path.parent().and_then(|dir| File::open(dir).ok()) {
            // The content is already on disk; a name lost in a power failure only means that the bundle is built
            // again.
            let _ = dir.sync_all();
        }
        Ok(path)
    }

    /// Turns an error into one that users can act on, such as a full disk.
    pub fn explain(&self, error: BundleError) -> BundleError {
        let BundleError::Disk(_, cause) = &error else { return error };
        let dir = self.path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        match cause.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                no_room(dir, free(dir).unwrap_or_default(), self.min_free_bytes)
            }
            ErrorKind::FileTooLarge => BundleError::NoRoom(format!(
                "the bundle would be larger than {}, which is all that it may take in {} (`bundle.keep_bytes`, \
                 `bundle.min_free_bytes`): lower `bundle.series_bytes` or `bundle.log_bytes`, or ask for less time",
                format_bytes(self.most),
                dir.display(),
            )),
            _ => error,
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // After a rename there is no file left to remove.
        let _ = fs::remove_file(&self.part);
    }
}
