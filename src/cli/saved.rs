//! Saved pages: one or two of an engine, or a benchmark's record of many reads.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use jiff::Timestamp;

use diagnose::{PageReads, SavedPages};
use sources::exporter::{no_pages, parse, read_line};

/// Maximum bytes of a saved page, and of a line of a benchmark's record, which is a page.
const PAGE_BYTES: u64 = 16 << 20;
/// Maximum number of samples that are kept of a benchmark's record; of 2,000 series that is an hour and a half.
const RECORD_SAMPLES: usize = 10_000_000;
/// The least distance of two reads that are kept of a benchmark's record, in milliseconds: AIPerf reads three times a second.
const RECORD_STEP: i64 = 1_000;
/// The least distance of two pages.
const APART: Duration = Duration::from_secs(1);
/// Bytes at the beginning of a file that tell what it is.
const HEAD: u64 = 64 << 10;

/// The saved pages, and the time of the last read.
pub(super) struct Saved {
    pub(super) pages: Vec<SavedPages>,
    pub(super) at: Timestamp,
}

/// Reads one or two saved pages of one engine, the earlier one first, or a benchmark's record. The time between two pages is
/// `apart`, else that between the changes of the files.
///
/// # Errors
/// If a file cannot be read, is too large or no page; the error names the file and the line.
pub(super) fn saved(
    files: &[&str],
    apart: Option<Duration>,
    needed: &impl Fn(&str) -> bool,
) -> anyhow::Result<Option<Saved>> {
    match files {
        [] => Ok(None),
        [one] if is_record(one)? => record(one, needed).map(Some),
        [first] => {
            let (written, mut reads) = (written(first)?, PageReads::default());
            page(first, 0, &mut reads, needed)?;
            one_target(first, reads, written).map(Some)
        }
        [first, second] => {
            for file in [first, second] {
                ensure!(!is_record(file)?, "{file} is a benchmark's record of many reads: pass it alone");
            }
            let (earlier, later, mut reads) = (written(first)?, written(second)?, PageReads::default());
            page(first, 0, &mut reads, needed)?;
            let between = later.duration_since(earlier).try_into().ok().filter(|between| *between >= APART);
            let Some(apart) = apart.or(between) else {
                bail!(
                    "{second} was not written some seconds after {first}: pass --apart DURATION, the time between both"
                );
            };
            page(second, i64::try_from(apart.as_millis()).unwrap_or(i64::MAX / 4), &mut reads, needed)?;
            one_target(first, reads, later).map(Some)
        }
        _ => bail!("pass one or two files: pages of one engine, the earlier one first"),
    }
}

fn one_target(name: &str, reads: PageReads, at: Timestamp) -> anyhow::Result<Saved> {
    Ok(Saved { pages: vec![SavedPages { name: name.to_owned(), reads }], at })
}

fn written(file: &str) -> anyhow::Result<Timestamp> {
    let metadata = std::fs::metadata(file).with_context(|| format!("cannot read {file}"))?;
    ensure!(metadata.len() <= PAGE_BYTES, "{file} is larger than {} MiB: it is no page of metrics", PAGE_BYTES >> 20);
    let modified = metadata.modified().ok().and_then(|time| Timestamp::try_from(time).ok());
    modified.with_context(|| format!("cannot tell when {file} was written"))
}

fn page(file: &str, at: i64, reads: &mut PageReads, needed: &impl Fn(&str) -> bool) -> anyhow::Result<()> {
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {file}"))?;
    let head = bytes.get(..HEAD as usize).unwrap_or(&bytes);
    if let Some(error) = no_pages(head) {
        bail!("{file}: {error}");
    }
    let text = String::from_utf8(bytes).with_context(|| format!("{file} is no text"))?;
    reads.add(at, parse(&text, needed).map_err(|error| anyhow::anyhow!("{file} {error}"))?);
    Ok(())
}

/// Returns true if a file is a benchmark's record by its first line.
fn is_record(file: &str) -> anyhow::Result<bool> {
    let mut head = Vec::new();
    let opened = File::open(file).with_context(|| format!("cannot read {file}"))?;
    opened.take(HEAD).read_to_end(&mut head).with_context(|| format!("cannot read {file}"))?;
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let has = |text: &str| line.windows(text.len()).any(|window| window == text.as_bytes());
    Ok(line.starts_with(b"{") && (has("\"endpoint_url\"") || has("\"timestamp_ns\"")))
}

fn record(file: &str, needed: &impl Fn(&str) -> bool) -> anyhow::Result<Saved> {
    let mut lines = BufReader::new(File::open(file).with_context(|| format!("cannot read {file}"))?);
    let mut targets: BTreeMap<String, (i64, PageReads)> = BTreeMap::new();
    let (mut number, mut samples, mut last) = (0, 0, i64::MIN);
    loop {
        let (mut line, said) = (String::new(), || format!("cannot read line {} of {file}", number + 1));
        let read = lines.by_ref().take(PAGE_BYTES + 1).read_line(&mut line).with_context(said)?;
        if read == 0 {
            break;
        }
        number += 1;
        ensure!(read as u64 <= PAGE_BYTES, "{file}: line {number} is longer than {} MiB", PAGE_BYTES >> 20);
        if line.trim().is_empty() {
            continue;
        }
        let is_due = |url: &str, at: i64| {
            targets.get(url).is_none_or(|(before, _): &(i64, _)| at.saturating_sub(*before) >= RECORD_STEP)
        };
        let page = match read_line(&line, number, is_due, needed) {
            Ok(Some(page)) => page,
            Ok(None) => continue,
            // A benchmark that was stopped leaves half a line at the end.
            Err(_) if !line.ends_with('\n') && number > 1 => break,
            Err(error) => bail!("{file}: {error}"),
        };
        samples += page.samples.len();
        ensure!(
            samples <= RECORD_SAMPLES,
            "{file} has more than {RECORD_SAMPLES} samples of what is asked: cut it to some minutes, `head -n {number}`"
        );
        let (before, reads) = targets.entry(page.url).or_default();
        reads.add(page.at, page.samples);
        (*before, last) = (page.at, last.max(page.at));
    }
    let at = Timestamp::from_millisecond(last).with_context(|| format!("{file} has no time that can be"))?;
    let pages = targets.into_iter().map(|(name, (_, reads))| SavedPages { name, reads }).collect();
    Ok(Saved { pages, at })
}
