//! Where bundles stand: files of one directory, each there as a whole or not at all.
//!
//! A name tells incident and time, so the directory needs no index. A bundle is written beside its name and gets it when
//! it is complete; whoever writes holds a lock, so that what a crash left is told from what is being made.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use super::{BundleError, Config};
use crate::clock;
use crate::signal::{Unit, format_value};

/// Of a bundle's name.
const BEGINNING: &str = "llm-diagnose-";
const END: &str = ".zip";
/// Of the name that it has until it is complete.
const UNFINISHED: &str = ".part";
/// To the second, sortable, and harmless in every file system.
const TIME: &str = "%Y%m%dT%H%M%SZ";
/// Of an id.
const ID_CHARS: usize = 64;
/// With less room it is not even begun.
const LEAST: u64 = 8 << 20;
/// So much is given up at a time when the store has no room.
const GIVEN_UP: u64 = 32 << 20;
/// Bundles that may be written at once, among which the room is shared.
pub const AT_ONCE: usize = 2;

/// A bundle's file name: `llm-diagnose-<incident>-<time>.zip`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// Of what it is: letters and digits.
    pub of: String,
    /// When it was begun, to the second.
    pub at: Timestamp,
}

impl Name {
    /// Reads a name; none for whatever else a request or a directory holds.
    pub fn read(text: &str) -> Option<Self> {
        let (of, at) = text.strip_prefix(BEGINNING)?.strip_suffix(END)?.rsplit_once('-')?;
        let fine = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let at = jiff::civil::DateTime::strptime(TIME, at).ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp();
        let name = Self { of: of.to_owned(), at };
        // Several spellings of one time are not several names.
        (!of.is_empty() && of.len() <= ID_CHARS && of.chars().all(fine) && name.to_string() == text).then_some(name)
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{BEGINNING}{}-{}{END}", self.of, self.at.strftime(TIME))
    }
}

/// A bundle that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Its name.
    pub name: Name,
    /// Its size.
    pub bytes: u64,
}

/// The directory with its limits.
#[derive(Debug)]
pub struct Shelf {
    dir: PathBuf,
    keep: Duration,
    keep_bytes: u64,
    min_free_bytes: u64,
    /// It is on the disk of the store.
    beside_store: bool,
}

impl Shelf {
    /// Makes the directory for its owner alone, and removes what a crash left in it.
    ///
    /// # Errors
    /// When it cannot be made or read.
    pub fn open(config: &Config, state_dir: &Path) -> Result<Self, BundleError> {
        let dir = if config.dir.as_os_str().is_empty() { state_dir.join("bundles") } else { config.dir.clone() };
        let failed = |error| BundleError::Disk(dir.display().to_string(), error);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(failed)?;
        // One that somebody else made may be open to others.
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).map_err(failed)?;
        for entry in fs::read_dir(&dir).map_err(failed)?.flatten() {
            let name = entry.file_name();
            let unfinished = name.to_str().and_then(|name| name.strip_suffix(UNFINISHED)).and_then(Name::read);
            if unfinished.is_some() && File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok()) {
                tracing::info!(file = %entry.path().display(), "removed a bundle that was never finished");
                let _ = fs::remove_file(entry.path());
            }
        }
        let Config { keep, keep_bytes, min_free_bytes, .. } = *config;
        let device = |path: &Path| fs::metadata(path).map(|data| data.dev());
        let beside_store = device(&dir).ok() == device(state_dir).ok();
        Ok(Self { dir, keep, keep_bytes, min_free_bytes, beside_store })
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// How long bundles stay.
    pub fn keep(&self) -> Duration {
        self.keep
    }

    /// The name of a bundle that is begun now.
    pub fn named(&self, of: &str, now: Timestamp) -> Name {
        Name { of: of.to_owned(), at: clock::floor(now, Duration::from_secs(1)) }
    }

    /// Where a bundle stands; the name was read, so it leads nowhere else.
    pub fn path(&self, name: &Name) -> PathBuf {
        self.dir.join(name.to_string())
    }

    /// The bundles, oldest first; of one incident alone when it is named.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn list(&self, of: Option<&str>) -> io::Result<Vec<Kept>> {
        let mut kept = Vec::new();
        for entry in fs::read_dir(&self.dir)?.flatten() {
            let Some(name) = entry.file_name().to_str().and_then(Name::read) else { continue };
            if of.is_some_and(|of| of != name.of) {
                continue;
            }
            // Links are not followed: nothing of ours is one.
            let Ok(data) = fs::symlink_metadata(entry.path()) else { continue };
            if data.is_file() {
                kept.push(Kept { name, bytes: data.len() });
            }
        }
        kept.sort_by(|one, other| (one.name.at, &one.name.of).cmp(&(other.name.at, &other.name.of)));
        Ok(kept)
    }

    /// Removes what is too old, and the oldest while all together are too large.
    ///
    /// # Errors
    /// When the directory cannot be read, or a file cannot be removed.
    pub fn tidy(&self, now: Timestamp) -> io::Result<usize> {
        let kept = self.list(None)?;
        let oldest = clock::before(now, self.keep);
        let mut all: u64 = kept.iter().map(|kept| kept.bytes).sum();
        let mut removed = 0;
        for Kept { name, bytes } in kept {
            if name.at >= oldest && all <= self.keep_bytes {
                break;
            }
            match fs::remove_file(self.path(&name)) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            tracing::info!(bundle = %name, "removed a bundle: too old, or all together too large");
            (all, removed) = (all - bytes, removed + 1);
        }
        Ok(removed)
    }

    /// Removes the oldest until 32 MiB are given up, where that makes room for the store. Returns how many it removed.
    ///
    /// # Errors
    /// When the directory cannot be read, or a file cannot be removed.
    pub fn give_way(&self) -> io::Result<usize> {
        if !self.beside_store {
            return Ok(0);
        }
        let (mut removed, mut freed) = (0, 0);
        for Kept { name, bytes } in self.list(None)? {
            match fs::remove_file(self.path(&name)) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                // What is removed already is room for the store.
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

    /// Makes room and a place for a new bundle.
    ///
    /// # Errors
    /// When there is too little room, in a sentence for people; or the disk fails.
    pub fn begin(&self, of: &str, now: Timestamp) -> Result<Draft, BundleError> {
        let failed = |error| BundleError::Disk(self.dir.display().to_string(), error);
        self.tidy(now).map_err(failed)?;
        let room = room(&self.dir, self.min_free_bytes)? / AT_ONCE as u64;
        Draft::new(self.path(&self.named(of, now)), room.min(self.keep_bytes), self.min_free_bytes)
    }
}

/// Bytes that may be written into a directory.
///
/// # Errors
/// When it is too little, in a sentence for people; or the disk cannot tell.
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
        shown(free),
        shown(min_free_bytes),
    ))
}

fn shown(bytes: u64) -> String {
    format_value(bytes as f64, Unit::Bytes)
}

/// A bundle that is being written; the file is gone when this is dropped before it is kept.
#[derive(Debug)]
pub struct Draft {
    part: PathBuf,
    path: PathBuf,
    min_free_bytes: u64,
    /// Bytes that the file may have.
    pub most: u64,
    /// Its lock says that somebody still writes.
    _lock: File,
}

impl Draft {
    /// A place beside `path` of at most `most` bytes.
    ///
    /// # Errors
    /// When no file can be made there.
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

    /// Where to write.
    pub fn part(&self) -> &Path {
        &self.part
    }

    /// Gives the file its name, which must be free unless `replace`. Returns the path.
    ///
    /// # Errors
    /// When that fails, or the name is taken.
    pub fn keep(self, replace: bool) -> Result<PathBuf, BundleError> {
        let path = self.path.clone();
        // A hard link refuses a name that is taken, in one step; where there are none the check must do.
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
            // The content is on the disk already; a name that a power cut forgets is made anew when asked.
            let _ = dir.sync_all();
        }
        Ok(path)
    }

    /// Why it could not be written, as people can act on: a full disk is told as one.
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
                shown(self.most),
                dir.display(),
            )),
            _ => error,
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // After a rename there is nothing left to remove.
        let _ = fs::remove_file(&self.part);
    }
}
