//! Backup and restore of a store in a file.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::connections::Slots;
use super::database::{self, DatabaseEngine, SqliteAccess};
use super::{StateLock, StoreError, schema};

/// The name of the store's file in a state directory.
pub const FILE: &str = "llm-diagnose.db";
/// Suffixes of SQLite's files beside a database: the write-ahead log and its index.
const BESIDE: [&str; 2] = ["-wal", "-shm"];

/// Writes a consistent copy of the store, also while a service writes to it.
///
/// # Errors
/// When `to` exists or cannot be written, or `from` does not contain our tables.
pub async fn backup(from: &Path, to: &Path) -> Result<(), StoreError> {
    // Created first, because the file must not exist and no other user may read it.
    let file = File::options().write(true).create_new(true).mode(0o600).open(to).map_err(|error| file(to, error))?;
    let copied = copy(from, to).await.and_then(|()| file_synced(&file, to));
    if copied.is_err() {
        let _ = fs::remove_file(to);
    }
    copied
}

async fn copy(from: &Path, to: &Path) -> Result<(), StoreError> {
    let text = to.to_str().ok_or_else(|| file(to, io::Error::other("its path is not UTF-8")))?;
    let pool = database::sqlite(from, SqliteAccess::ReadBeside, Slots::new(1)).await?;
    let copied = async {
        allow_older(schema::check(&pool, DatabaseEngine::Sqlite).await)?;
        // https://sqlite.org/lang_vacuum.html#vacuuminto: a consistent copy; the file may exist when it is empty.
        // Without the pool's limit of a statement: a large store takes minutes.
        let mut connection = pool.acquire().await?;
        sqlx::query("VACUUM INTO $1").bind(text).execute(connection.raw()?).await?;
        connection.done();
        Ok(())
    };
    let copied = copied.await;
    pool.close().await;
    copied
}

/// Replaces the store of a state directory with a backup. Returns the new path of the old store; `None` if there was
/// none.
///
/// # Errors
/// When a service uses the directory, the file is not a store or has an unsupported version, or a file cannot be copied
/// or renamed. Until the first rename the store is unchanged.
pub async fn restore(from: &Path, directory: &Path, suffix: &str) -> Result<Option<PathBuf>, StoreError> {
    fs::create_dir_all(directory).map_err(|error| file(directory, error))?;
    let _lock = StateLock::take(directory)?;
    let store = directory.join(FILE);
    let copy = directory.join(format!("{FILE}.restoring"));
    let prepared = prepare(from, &copy).await;
    if prepared.is_err() {
        let _ = fs::remove_file(&copy);
    }
    prepared?;
    let replaced = directory.join(format!("{FILE}.{suffix}"));
    // The files beside it are moved too, even without a database; otherwise SQLite would apply their changes to the
    // restored one.
    for beside in BESIDE {
        let (old, new) = (with(&store, beside), with(&replaced, beside));
        if old.exists() {
            fs::rename(&old, new).map_err(|error| file(&old, error))?;
        }
    }
    let replaced = if store.exists() {
        fs::rename(&store, &replaced).map_err(|error| file(&store, error))?;
        Some(replaced)
    } else {
        None
    };
    fs::rename(&copy, &store).map_err(|error| file(&store, error))?;
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(|error| file(directory, error))?;
    Ok(replaced)
}

/// Copies a backup and checks the copy, so that the checked file is the one that is used.
async fn prepare(from: &Path, copy: &Path) -> Result<(), StoreError> {
    let beside = with(from, BESIDE[0]);
    if fs::metadata(&beside).is_ok_and(|beside| beside.len() > 0) {
        let hint = "it lacks the changes in the file beside it (-wal): make the copy with `llm-diagnose backup`";
        return Err(file(from, io::Error::other(hint)));
    }
    let mut read = File::open(from).map_err(|error| file(from, error))?;
    let mut options = File::options();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut written = options.open(copy).map_err(|error| file(copy, error))?;
    io::copy(&mut read, &mut written).map_err(|error| file(copy, error))?;
    file_synced(&written, copy)?;
    let pool =
        database::sqlite(copy, SqliteAccess::Immutable, Slots::new(1)).await.map_err(|_| StoreError::NoTables)?;
    let examined = async {
        allow_older(schema::check(&pool, DatabaseEngine::Sqlite).await)?;
        let mut connection = pool.acquire().await?;
        let answer: String = sqlx::query_scalar("PRAGMA quick_check(1)").fetch_one(connection.raw()?).await?;
        connection.done();
        if answer == "ok" { Ok(()) } else { Err(file(from, io::Error::other(format!("it is damaged: {answer}")))) }
    };
    let examined = examined.await;
    pool.close().await;
    examined
}

/// Accepts an older store: `serve` migrates it.
fn allow_older(checked: Result<(), StoreError>) -> Result<(), StoreError> {
    match checked {
        Err(StoreError::Older { .. }) => Ok(()),
        checked => checked,
    }
}

fn with(path: &Path, suffix: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

fn file(path: &Path, error: io::Error) -> StoreError {
    StoreError::File { path: path.to_owned(), error }
}

fn file_synced(written: &File, path: &Path) -> Result<(), StoreError> {
    written.sync_all().map_err(|error| file(path, error))
}
