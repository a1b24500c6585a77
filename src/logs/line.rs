//! A line without its wrapping: who wrote it, with which level, and what it says.
//!
//! Containers, collectors and launchers put a prefix or a JSON object around each line of an engine; the engine itself
//! begins it with a header of time, level and place. Indentation after the header is kept: it tells a traceback's frames.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use super::forms::{KERNEL_REPORT, has};

/// Maximum wrappers of one line, and maximum parts of a header.
const WRAPPERS: usize = 4;
const HEADER_PARTS: usize = 12;
/// Characters after the header in which a level word is searched.
const LEVEL_WITHIN: usize = 160;
/// Levels that are padded to the width of the longest.
const PADDED_LEVELS: [&str; 4] = ["INFO ", "WARN ", "ERROR ", "TRACE "];
/// Keys of a collector's JSON with the engine's own line.
const LINE_KEYS: [&str; 6] = ["log", "MESSAGE", "textPayload", "line", "@message", "message"];
/// Keys that show that JSON is a collector's although its line is under `message`.
const COLLECTOR_KEYS: [&str; 6] = ["kubernetes", "stream", "@timestamp", "docker", "_SYSTEMD_UNIT", "source_type"];
/// Keys of the level, the message, the details and the time in JSON lines of programs. Sources:
/// <https://docs.litellm.ai/docs/proxy/debugging>, <https://pkg.go.dev/go.uber.org/zap/zapcore#EncoderConfig>,
/// <https://docs.rs/tracing-subscriber/latest/tracing_subscriber/fmt/format/struct.Json.html>.
const LEVEL_KEYS: [&str; 6] = ["level", "levelname", "severity", "lvl", "log.level", "loglevel"];
const MESSAGE_KEYS: [&str; 4] = ["message", "msg", "event", "body"];
const DETAIL_KEYS: [&str; 7] = ["error", "err", "exception", "exc_info", "stacktrace", "stack_trace", "traceback"];
const TIME_KEYS: [&str; 5] = ["@timestamp", "timestamp", "asctime", "ts", "time"];

/// The level of a line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum LineLevel {
    /// None is written.
    #[default]
    None,
    /// Information or a warning.
    Lower,
    /// An error.
    Error,
}

/// A line in parts.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct LogLine<'a> {
    /// The pod or container, as far as a collector tells it.
    pub(super) pod: String,
    /// The writer: pod, process and rank, as far as the line tells.
    pub(super) writer: String,
    /// The line as its program wrote it.
    pub(super) text: Cow<'a, str>,
    /// The header of the program: time, level, place.
    pub(super) header: String,
    /// The time that a JSON object has for it.
    pub(super) time: Option<String>,
    /// The text after the header; several lines if a JSON object holds several.
    pub(super) body: String,
    pub(super) level: LineLevel,
}

/// Prefixes of collectors and launchers; the first group, if any, is its writer.
static WRAPPER: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let forms = [
        // The container runtime's own file (CRI); `logcli`; `kubectl logs --prefix`; Docker Compose.
        r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d) (?:stdout|stderr) [FP] ",
        r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)\s+(\{\w+=[^}]*\}) ",
        r"\[pod/([^\]]+)\] ",
        r"([a-z0-9][\w.-]*) +\| ",
        // stern and kubetail: pod, container.
        r"([a-z0-9][a-z0-9.]*(?:-[a-z0-9.]+)*-(?:\d+|[bcdfghjklmnpqrstvwxz2456789]{5})) [a-z][a-z0-9-]* ",
        // journald and syslog: time, host, program.
        // The host may be left out, and the month is that of the locale.
        r"\s*[\p{L}\d]{2,4}\.? +\d{1,2} \d\d:\d\d:\d\d (?:[\w.-]+ )?([\w./@-]+)(?:\[\d+\])?: ",
        r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d) [\w.-]+ ([\w./@-]+)\[\d+\]: ",
        // Talos: node, facility, level, time.
        r"([\w.-]+): (?:kern|user|daemon): +[a-z]+: \[[^\]]+\]: ",
        // FastChat logs the standard error of its server.
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \| (?:ERROR|INFO) \| std(?:err|out) \|(?: |$)",
        // A supervisor's time and a mark.
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)? +(?:>{1,2}|=>|::) +",
        // mpirun, srun, torchrun.
        r"\[\d+,(\d+)\]<std(?:out|err)>: ?",
        r"\[(?:default)(\d+)\]: ?",
        r"(\d{1,4}): ",
    ];
    Regex::new(&format!("^(?:{})", forms.join("|"))).ok()
});

/// A part of a header with the white space after it; the named groups tell the level and the writer.
static HEADER: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let forms = [
        r"\[(?P<inner>[^\[\]]{0,120})\]:?",
        // Ray names an actor by its function: `(MapWorker(MapBatches(Engine)) pid=7, ip=…)`.
        r"\((?P<process>[A-Za-z][\w:.*-]*(?:\([0-9A-Za-z_:.*()-]{0,80}\) pid=\d+)?(?:,? [^()]{0,80})?)\)",
        r"(?:\d{4}[-/]\d\d[-/]\d\d[T ]|\d\d-\d\d )?\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?",
        r"(?P<glog>[IWEF])\d{3,4} \d\d:\d\d:\d\d\.\d+ +\d+",
        // llama.cpp: minutes, seconds, milliseconds, microseconds.
        r"\d+\.\d\d\.\d{3}\.\d{3} (?P<letter>[IWED])",
        r"[\w./-]+\.(?:py|cc|cpp|cu|cuh|c|h|go|rs):\d+(?:\]|:| -)?",
        r"(?:LiteLLM[ \w]*:|[\w.]+:|[\w.]+ - )?(?P<level>TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|ERR|CRITICAL|FATAL|PANIC)(?:[:|\]-]|\b)",
        r"(?P<rank>rank ?\d+):",
        // The module of a Rust program.
        r"(?P<module>[a-z_]\w*(?:::[a-z_]\w*)+):",
        r"[-|]",
    ];
    Regex::new(&format!(r"^(?:{})(?:\s|$)?", forms.join("|"))).ok()
});

/// A level inside brackets: `[E]`, `[error]`, `[2026-11-02 16:02:26,014 E 391 391]`.
static INNER_LEVEL: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^(?:(?P<rank>rank ?\d+)|.*?\b(?:(?P<lower>[IWD](?:\d{3,4})?|(?i:trace|debug|info|notice|warn|warning))|(?P<error>[EFC](?:\d{3,4})?|(?i:error|err|critical|crit|fatal|alert|emerg)))\b.*)$").ok()
});

impl<'a> LogLine<'a> {
    /// Parses a line.
    pub(super) fn of(line: &'a str) -> Self {
        let (mut text, mut writer) = (Cow::Borrowed(line), String::new());
        for _ in 0..WRAPPERS {
            let Some((inner, of)) = unwrapped(&text) else { break };
            text = Cow::Owned(inner);
            writer = of.unwrap_or(writer);
        }
        let mut parsed = Self { pod: writer.clone(), writer, text, ..Self::default() };
        match object(&parsed.text) {
            Some(object) => parsed.read_object(&object),
            None => parsed.read_plain(),
        }
        parsed
    }

    fn read_object(&mut self, object: &Map<String, Value>) {
        let fields = object.get("fields").and_then(Value::as_object);
        let find = |key: &&str| object.get(*key).or_else(|| fields.and_then(|fields| fields.get(*key)));
        let level = LEVEL_KEYS.iter().find_map(|key| find(key)?.as_str());
        self.level = level.map_or(LineLevel::None, level_of);
        let text = |value: &Value| value.as_str().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned);
        let message = MESSAGE_KEYS.iter().find_map(|key| find(key).and_then(text)).unwrap_or_default();
        self.time = TIME_KEYS.iter().find_map(|key| find(key).and_then(text));
        let details = DETAIL_KEYS.iter().filter_map(|key| find(key).and_then(text));
        // The stack of another language is no part of the message.
        let details = details.filter(|detail| !message.contains(detail.as_str()));
        let details = details.filter(|detail| !detail.contains('\n') || detail.contains("Traceback ("));
        let whole = std::iter::once(message.clone()).filter(|m| !m.is_empty()).chain(details);
        // A traceback keeps its lines; anything else is one sentence.
        let parts: Vec<String> = whole.collect();
        let traced = parts.iter().any(|part| part.contains("Traceback (most recent call last)"));
        self.body = parts.join(if traced { "\n" } else { ": " });
    }

    fn read_plain(&mut self) {
        let mut rest: &str = &self.text;
        let mut level = None;
        for _ in 0..HEADER_PARTS {
            if level.is_none() && has(&KERNEL_REPORT, rest) {
                level = Some(LineLevel::Error);
                break;
            }
            let Some(part) = HEADER.as_ref().and_then(|header| header.captures(rest)) else { break };
            let group = |name: &str| part.name(name).map(|group| group.as_str());
            // A launcher logs the lines of its child as its own; in an error the module tells.
            if group("module").is_some() && level != Some(LineLevel::Lower) {
                break;
            }
            let inner = group("inner").and_then(|inner| INNER_LEVEL.as_ref()?.captures(inner));
            let inside = |name: &str| inner.as_ref().is_some_and(|inner| inner.name(name).is_some());
            let found = match (group("level").or(group("glog")).or(group("letter")), inside("error"), inside("lower")) {
                (Some(word), ..) => Some(level_of(word)),
                (None, true, _) => Some(LineLevel::Error),
                (None, _, true) => Some(LineLevel::Lower),
                _ => None,
            };
            level = level.or(found);
            let rank = inner.as_ref().and_then(|inner| Some(inner.name("rank")?.as_str()));
            for of in [group("process"), group("rank"), rank].into_iter().flatten() {
                self.writer = format!("{} {of}", self.writer);
            }
            let length = part.get(0).map_or(0, |all| all.len());
            rest = &rest[length..];
            // Glog's and logfmt's columns are padded; a frame of a traceback is indented behind a source location.
            if group("glog").is_some() || level.is_some() && group("level").is_some() && !rest.starts_with("  File ") {
                rest = rest.trim_start();
            }
            // A level is aligned to the right.
            if level.is_none() && PADDED_LEVELS.iter().any(|level| rest.trim_start().starts_with(level)) {
                rest = rest.trim_start();
            }
            if length == 0 || rest.starts_with(char::is_whitespace) {
                break;
            }
        }
        let header = self.text.len() - rest.len();
        (self.header, self.body) = (self.text[..header].to_owned(), rest.to_owned());
        self.level = level.unwrap_or_else(|| written_level(&self.body));
        // Triton packs a message of several lines into one string.
        if let Some(message) =
            self.body.starts_with('"').then(|| serde_json::from_str::<String>(self.body.trim_end()).ok()).flatten()
        {
            self.body = anstream::adapter::strip_str(&message).to_string();
        }
        if let Some(message) = logfmt(&self.text) {
            self.body = message;
        }
    }
}

/// Returns the line inside a wrapper, and its writer if the wrapper tells it.
fn unwrapped(text: &str) -> Option<(String, Option<String>)> {
    if let Some(object) = object(text) {
        let is_collector = COLLECTOR_KEYS.iter().any(|key| object.contains_key(*key));
        let own = LEVEL_KEYS.iter().any(|key| object.contains_key(*key));
        let key = LINE_KEYS.iter().find(|key| {
            object.get(**key).is_some_and(Value::is_string) && (**key != "message" || is_collector && !own)
        })?;
        let of = object.get("kubernetes").and_then(|of| of.get("pod_name").or_else(|| of.get("pod")));
        let line = object.get(*key).and_then(Value::as_str).unwrap_or_default().trim_end_matches(['\n', '\r']);
        return Some((line.to_owned(), of.and_then(Value::as_str).map(str::to_owned)));
    }
    // A terminal's frame around a view of logs.
    if let Some(framed) = text.strip_prefix("│ ") {
        return Some((framed.trim_end_matches([' ', '│']).to_owned(), None));
    }
    let parts = WRAPPER.as_ref()?.captures(text)?;
    let of = parts.iter().skip(1).flatten().next().map(|of| of.as_str().to_owned());
    // A level behind the time is no program.
    let is_level = |of: &str| HEADER.as_ref()?.captures(of)?.name("level").map(|level| level.len() == of.len());
    if of.as_deref().and_then(is_level) == Some(true) {
        return None;
    }
    Some((text[parts.get(0)?.end()..].to_owned(), of))
}

fn object(text: &str) -> Option<Map<String, Value>> {
    text.starts_with('{').then(|| serde_json::from_str(text.trim_end()).ok()).flatten()
}

fn level_of(word: &str) -> LineLevel {
    match word.to_ascii_uppercase().as_str() {
        "E" | "F" | "ERROR" | "ERR" | "CRITICAL" | "CRIT" | "FATAL" | "PANIC" | "ALERT" | "EMERGENCY" | "DPANIC" => {
            LineLevel::Error
        }
        _ => LineLevel::Lower,
    }
}

/// Searches a level word behind the header: `UCX  ERROR`, `name - ERROR -`, `level=error`.
fn written_level(body: &str) -> LineLevel {
    let head = body.char_indices().nth(LEVEL_WITHIN).map_or(body, |(end, _)| &body[..end]);
    let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '\'' | '"');
    let has = |word: &&str| -> bool {
        head.match_indices(*word)
            .any(|(at, _)| !head[..at].ends_with(inside) && !head[at + word.len()..].starts_with(inside))
    };
    match () {
        () if ["ERROR", "CRITICAL", "FATAL", "level=error", "level=fatal"].iter().any(has) => LineLevel::Error,
        () if ["INFO", "WARNING", "DEBUG", "level=info", "level=warn", "level=warning", "level=WARN"]
            .iter()
            .any(has) =>
        {
            LineLevel::Lower
        }
        () => LineLevel::None,
    }
}

/// Returns the message and the error of a logfmt line: `level=error msg="no endpoint" err="refused"`.
fn logfmt(text: &str) -> Option<String> {
    let value = |key: &str| {
        let (_, rest) = text.split_once(key)?;
        match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').map(|(value, _)| value.to_owned()),
            None => rest.split_whitespace().next().map(str::to_owned),
        }
    };
    let message = text.contains("level=").then(|| value(" msg=")).flatten()?;
    Some(
        [Some(message), value(" err=").or_else(|| value(" error="))]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(": "),
    )
}
