//! Records of a log: an error line with its traceback and the exceptions that caused it, line by line and per writer.
//!
//! Several processes write into one log, so each writer has a record of its own. The innermost exception of a record is
//! told, or the one that names the peer which it could not connect to; those that were raised while it was handled only
//! follow.

use std::collections::BTreeMap;

use knowledge::playbook::LogRank;

use super::forms::{
    CALM, DISCONNECTED, ENDED, GOROUTINE, NATIVE_FRAME, OF_ANOTHER, PEER, QUOTED, STRONG, SUSPECT, WARNING, WEAK,
    class, exception, frame, go_frame, has, is_caret, is_flat, package, printable,
};
use super::line::{LineLevel, LogLine};
use super::moment::LogTime;
use super::unknown_line::UnknownLine;

/// Maximum writers with an open record; beyond it all records are closed.
const WRITERS: usize = 128;
/// Maximum lines without indentation of an exception's message.
const MESSAGE_LINES: usize = 24;
/// Maximum runs of which a frame is kept: a library's error belongs to the part of the engine that called it.
const RUNS: usize = 5;
const TRACEBACK: &str = "Traceback (most recent call last)";
/// Marks between the tracebacks of exceptions that belong together.
const CHAINED: [&str; 3] = ["the above exception", "The above exception", "ExceptionGroup: "];

/// The open records of all writers.
#[derive(Debug, Clone, Default)]
pub(super) struct Records {
    open: BTreeMap<String, Record>,
}

/// A record that may go on with the next line.
#[derive(Debug, Clone, Default)]
struct Record {
    /// The error line before the traceback, and what is known of it.
    header: Option<(UnknownLine, Option<LogRank>)>,
    /// True from the first frame on.
    traced: bool,
    /// True if the log begins in the middle of its traceback.
    cut: bool,
    /// True between a traceback's start and its exception.
    inside: bool,
    /// The file and line number of the last frame.
    frame: Option<String>,
    /// The assertion in the last frame's line of code.
    assertion: Option<String>,
    /// The innermost frame of each run of frames of one package, the innermost run first.
    frames: Vec<String>,
    /// True after a frame that is not indented: the line of code below it is not indented either.
    flat: bool,
    /// The last frame of a traceback, in case that the log ends before the exception.
    last_frame: Option<UnknownLine>,
    /// The innermost exception, and what is known of it.
    innermost: Option<(UnknownLine, Option<LogRank>)>,
    /// An indented exception or error, in case that no exception without indentation follows it.
    indented: Option<UnknownLine>,
    /// True if its frames have a header each.
    prefixed: bool,
    /// A line without their header, in case that no exception follows it.
    piece: Option<UnknownLine>,
    /// True if a finding explains one of its lines.
    explained: bool,
    /// True if the next exception names the one before it as its direct cause; others only follow while that is handled.
    is_caused: bool,
    /// The line of the first exception that a finding explains and that was caused by the innermost one.
    explained_by: Option<u64>,
    /// The header of its last line.
    last_header: String,
    /// Number of lines after the exception.
    message_lines: usize,
}

impl Records {
    /// Adds a line, and returns the failures of the records that it ends. `known` is what a finding says of the line.
    pub(super) fn line(
        &mut self,
        line: &LogLine<'_>,
        number: u64,
        at: Option<&LogTime>,
        known: Option<LogRank>,
    ) -> Vec<UnknownLine> {
        let mut ended = Vec::new();
        if self.open.len() >= WRITERS && !self.open.contains_key(&line.writer) {
            ended.extend(self.finish());
        }
        let mut record = self.open.remove(&line.writer).unwrap_or_default();
        for body in line.body.split('\n') {
            let body = ungrouped(body);
            let failure = |said: &str| UnknownLine {
                line: number,
                first: at.map(|moment| moment.text.clone()),
                at: at.and_then(|moment| moment.at),
                text: printable(&line.text),
                said: printable(said.trim()),
                ..UnknownLine::default()
            };
            if has(&NATIVE_FRAME, body) || record.goes_on(line, body, known, failure) {
                continue;
            }
            ended.extend(record.end());
            record = Record::begun(line, body, known, failure);
        }
        if record.header.is_some() || record.traced {
            self.open.insert(line.writer.clone(), record);
        }
        ended
    }

    /// Ends all records.
    pub(super) fn finish(&mut self) -> Vec<UnknownLine> {
        let mut ended: Vec<UnknownLine> =
            std::mem::take(&mut self.open).into_values().filter_map(Record::end).collect();
        ended.sort_by_key(|failure| failure.line);
        ended
    }
}

impl Record {
    /// Returns the record that a line begins; an empty one if it is no error.
    fn begun(line: &LogLine<'_>, body: &str, known: Option<LogRank>, failure: impl Fn(&str) -> UnknownLine) -> Self {
        let mut record = Self { last_header: line.header.clone(), ..Self::default() };
        let said = body.split(TRACEBACK).next().unwrap_or_default().trim_end_matches([' ', ':']);
        let exception = exception(body.trim_start());
        let strong = line.level == LineLevel::Error
            || (line.level == LineLevel::None && (exception.is_some() || has(&STRONG, body)));
        // Below a warning stands the line of code that gave it.
        let is_code = body.starts_with("  ") && body.contains(['(', '=']);
        let is_calm = is_code || has(&CALM, body);
        // A prompt may hold any text.
        let is_warning = line.level == LineLevel::Lower && has(&WARNING, &line.text) && !body.contains("prompt: ");
        let suspect = is_warning && !is_calm && (has(&QUOTED, body) || has(&SUSPECT, body));
        let is_named = match line.level {
            LineLevel::None => has(&WEAK, body),
            LineLevel::Lower => suspect || (is_warning && has(&ENDED, body)),
            LineLevel::Error => false,
        };
        let weak = is_named && !is_calm;
        let frame = record.add_frame(body);
        // A message of several lines in one: what it ends with is the exception.
        let packed = line.body.rsplit_once('\n').is_some_and(|(_, last)| self::exception(last).is_some());
        // A log may begin in the middle of a traceback: the exception follows.
        let cut = line.level == LineLevel::Error && body.starts_with("    ") && known.is_none();
        // A terminal may have wrapped a frame, or the log begins at its marks.
        let is_inside = line.level == LineLevel::Error && (body.trim() == "File" || is_caret(body));
        let frame_found = frame.is_some();
        if frame_found || cut || packed || is_inside || body.contains(TRACEBACK) {
            (record.traced, record.inside, record.frame) = (true, true, frame);
            let is_start = body.contains(TRACEBACK) || (frame_found && line.level == LineLevel::Error);
            (record.flat, record.last_frame) = (is_flat(body), is_start.then(|| failure(body)));
            record.prefixed = !line.header.is_empty() && !body.contains(TRACEBACK);
        }
        (record.cut, record.indented) = (cut, (cut && said.contains(char::is_alphanumeric)).then(|| failure(said)));
        if said.contains(char::is_alphanumeric)
            && record.frame.is_none()
            && !cut
            && !is_inside
            && (strong || weak || (record.traced && known.is_some()))
        {
            record.header = Some((UnknownLine { exception, weak: !strong, suspect, ..failure(said) }, known));
        }
        record
    }

    /// Adds a line to the record; false if it belongs to another one.
    fn goes_on(
        &mut self,
        line: &LogLine<'_>,
        body: &str,
        known: Option<LogRank>,
        failure: impl Fn(&str) -> UnknownLine,
    ) -> bool {
        let same = !line.header.is_empty() && line.header == self.last_header;
        if !self.traced {
            return self.header_goes_on(line, body, known, same);
        }
        let (frame, is_raised) = (self.add_frame(body), exception(body).is_some());
        let is_code = std::mem::replace(&mut self.flat, is_flat(body)) && !is_raised;
        let is_chained = CHAINED.iter().any(|text| body.contains(text));
        let is_inner = is_blank(body)
            || is_chained
            || is_code
            || frame.is_some()
            || [" ", "\t", "+ ", TRACEBACK].iter().any(|start| body.starts_with(start));
        self.prefixed |= frame.is_some() && !line.header.is_empty();
        // A terminal may have wrapped a line, and the piece has lost the prefix.
        let is_bare_text = line.header.is_empty() && line.level == LineLevel::None && !has(&STRONG, body);
        let is_piece = is_bare_text && self.inside && self.prefixed && known.is_none() && !is_raised;
        if is_piece && !is_inner {
            self.piece.get_or_insert_with(|| failure(body));
            return true;
        }
        // The line at which the log begins was code.
        let is_code_above = self.cut && same && (frame.is_some() || is_caret(body));
        self.indented = self.indented.take().filter(|one| !is_code_above || exception(&one.said).is_some());
        // A log may hold frames alone: of a traceback, where they are written as errors.
        let is_error = self.last_frame.is_some() || line.level == LineLevel::Error;
        if body.contains(TRACEBACK) || (frame.is_some() && is_error) {
            self.last_frame = Some(failure(body));
        }
        if is_inner {
            self.is_caused |= body.contains("direct cause");
            self.inside |= is_chained || frame.is_some() || body.contains(TRACEBACK);
            self.add_inner(body, frame, known, failure);
        } else if self.inside && (same || is_raised || (!self.cut && line.level == LineLevel::None)) {
            // The first line without indentation after the frames is the exception, whatever its class, unless it is a
            // message with a level of its own.
            self.add_raised(body, known, failure);
        } else if !self.add_message(line, body, known, same) {
            return false;
        }
        self.last_header.clone_from(&line.header);
        true
    }

    /// Adds a line below a header without a traceback; false if it belongs to another record.
    fn header_goes_on(&mut self, line: &LogLine<'_>, body: &str, known: Option<LogRank>, same: bool) -> bool {
        let Some((header, _)) = &mut self.header else { return false };
        let bare = line.header.is_empty();
        let is_go = ["panic: ", "fatal error: "].iter().any(|text| header.said.starts_with(text));
        let is_rust = header.said.contains(" panicked at") && header.said.ends_with(|c: char| c.is_ascii_digit());
        if is_go && has(&GOROUTINE, &line.text) {
            header.place = header.place.take().or_else(|| go_frame(&line.text));
        } else if body.starts_with(TRACEBACK) || frame(body).is_some() {
            (self.traced, self.inside, self.frame, self.flat) = (true, true, self.add_frame(body), is_flat(body));
        } else if bare && is_rust && !is_blank(body) && !has(&STRONG, body) {
            header.said = format!("{}: {body}", header.said);
        } else if bare && let Some((_, what)) = body.split_once("what():") {
            header.said = format!("{}: {}", header.said, what.trim());
            self.explain(known);
        } else {
            // What stands below an exception is its message.
            let is_below = (is_blank(body) || body.starts_with([' ', '\t'])) && (bare || same);
            if !is_below || (known.is_some() && header.exception.is_none()) {
                return false;
            }
            self.explain(known);
        }
        true
    }

    /// Adds a line of a traceback before the exception, or an indented one after it.
    fn add_inner(
        &mut self,
        body: &str,
        frame: Option<String>,
        known: Option<LogRank>,
        failure: impl Fn(&str) -> UnknownLine,
    ) {
        self.message_lines += usize::from(is_blank(body) && self.innermost.is_some());
        // One of several lines is told without them.
        if frame.is_some() || (body.trim_start().starts_with("assert ") && !body.ends_with(['(', ',', '\\'])) {
            self.assertion = frame.is_none().then(|| body.trim().to_owned());
        }
        self.frame = frame.or(self.frame.take());
        self.add_reason(body);
        if self.innermost.is_some() {
            self.explain(known);
        }
        if self.inside
            && let Some(class) = exception(body.trim_start())
        {
            self.indented = Some(UnknownLine { exception: Some(class), ..failure(body) });
        }
    }

    /// Adds the exception of a traceback.
    fn add_raised(&mut self, body: &str, known: Option<LogRank>, failure: impl Fn(&str) -> UnknownLine) {
        // An assertion without a message says by its code what did not hold.
        let said = match self.assertion.take() {
            Some(code) if body.trim_end().ends_with("AssertionError") => format!("{}: {code}", body.trim_end()),
            _ => body.to_owned(),
        };
        let raised = UnknownLine {
            exception: exception(body).or_else(|| class(body)),
            place: self.frame.take(),
            frames: std::mem::take(&mut self.frames),
            ..failure(&said)
        };
        // The library around a system call says where it wanted to connect.
        let names_peer = self.innermost.as_ref().is_some_and(|(inner, inner_known)| {
            inner_known.is_none()
                && has(&DISCONNECTED, &inner.said)
                && !has(&PEER, &inner.said)
                && has(&PEER, &raised.said)
        });
        let is_wrapper = self.innermost.as_ref().is_none_or(|(inner, _)| has(&OF_ANOTHER, &inner.said));
        if names_peer || is_wrapper {
            self.innermost = Some((raised, known));
        } else if self.is_caused && known.is_some_and(|rank| rank <= LogRank::Sign) {
            self.explained_by.get_or_insert(raised.line);
        }
        self.inside = false;
        self.explain(known);
    }

    /// Adds a line of the exception's message; false if it is none.
    fn add_message(&mut self, line: &LogLine<'_>, body: &str, known: Option<LogRank>, same: bool) -> bool {
        // Not one with a time or a place of its own.
        let lacks_message = self.lacks_message() && !line.header.contains(|c: char| c.is_ascii_digit());
        // An error in a list belongs to the message, and the list's dash is no header.
        let is_listed = line.header.trim_end() == "-";
        let is_bare = is_listed || line.header.is_empty();
        let is_message = self.message_lines < MESSAGE_LINES
            && (is_listed || exception(body).is_none())
            && (same || lacks_message || (is_bare && !has(&STRONG, body)));
        if !is_message {
            return false;
        }
        if let Some((raised, _)) = self.innermost.as_mut().filter(|_| lacks_message) {
            raised.said = printable(&format!("{} {}", raised.said, body.trim()));
        }
        self.message_lines += 1;
        self.explain(known);
        true
    }

    /// Marks the record as explained by a finding that says more than that something followed.
    fn explain(&mut self, known: Option<LogRank>) {
        self.explained |= known.is_some_and(|rank| rank != LogRank::Secondary);
    }

    /// Returns true if the exception's message begins in the line below it.
    fn lacks_message(&self) -> bool {
        self.message_lines == 0 && self.innermost.as_ref().is_some_and(|(raised, _)| raised.said.ends_with(':'))
    }

    /// Keeps a frame instead of the one of the same package that called it, and returns its place.
    fn add_frame(&mut self, body: &str) -> Option<String> {
        let place = frame(body)?;
        let body = body.replace('\\', "/");
        if self.frames.first().is_some_and(|outer| package(outer) == package(&body)) {
            self.frames.remove(0);
        }
        self.frames.insert(0, printable(&body));
        self.frames.truncate(RUNS);
        Some(place)
    }

    /// Adds the reason of a failed validation, which stands in an indented line below the exception.
    fn add_reason(&mut self, body: &str) {
        if let Some((raised, _)) = &mut self.innermost
            && !self.inside
            && !body.trim().is_empty()
            && self.message_lines <= 1
            && raised.exception.as_deref().is_some_and(|class| class.ends_with("ValidationError"))
        {
            raised.said = printable(&format!("{}: {}", raised.said, body.trim()));
            self.message_lines = MESSAGE_LINES;
        }
    }

    /// Ends the record; `None` if a finding explains it.
    fn end(self) -> Option<UnknownLine> {
        let said = self.header.as_ref().map_or("", |(header, _)| &header.said);
        let of_thread =
            self.innermost.is_some() && said.starts_with("Exception in thread ") && !said.contains("MainThread");
        let of_header = self.header.as_ref().and_then(|(_, known)| *known);
        let ended = match self.explained || of_header.is_some_and(|rank| rank != LogRank::Secondary) {
            true => self.end_explained(),
            false => self.end_unexplained(),
        };
        ended.map(|raised| UnknownLine { of_thread, ..raised })
    }

    /// Returns the innermost exception of a record that a finding explains by another line.
    fn end_explained(self) -> Option<UnknownLine> {
        let header = self.header.filter(|(_, known)| known.is_some_and(|rank| rank <= LogRank::Sign));
        let header = header.map(|(header, _)| header);
        let explained_by = self.explained_by.or(header.as_ref().map(|header| header.line))?;
        let raised = match self.innermost {
            Some((raised, known)) => known.is_none().then_some(raised),
            // A header whose message or place stands in the lines below it.
            None => header.filter(|header| header.place.is_some() || !header.text.contains(&header.said)),
        };
        Some(UnknownLine { explained_by: Some(explained_by), ..raised? })
    }

    /// Returns the innermost error of a record that no finding explains.
    fn end_unexplained(self) -> Option<UnknownLine> {
        let (header, of_header) = self.header.unzip();
        let fatal = of_header == Some(Some(LogRank::Secondary));
        let indented = self.indented.filter(|_| header.is_none()).or(self.piece).map(|raised| (raised, None));
        match (self.innermost.or(indented), header) {
            (Some((_, Some(_))), _) => None,
            (Some((raised, None)), _) => Some(UnknownLine { fatal, ..raised }),
            (None, None) => self.last_frame.map(|frame| UnknownLine { cut: true, place: self.frame, ..frame }),
            (None, Some(_)) if fatal => None,
            (None, Some(header)) => Some(UnknownLine { place: header.place.clone().or(self.frame), ..header }),
        }
    }
}

/// Returns true for a line without words; a copy of a log may leave frames out: `...`.
fn is_blank(body: &str) -> bool {
    !body.contains(char::is_alphanumeric)
}

/// Returns a line without the bar that Python sets before the exceptions of a group.
fn ungrouped(body: &str) -> &str {
    body.strip_prefix("  ").and_then(|rest| rest.trim_start().strip_prefix("| ")).unwrap_or(body)
}
