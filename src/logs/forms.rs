//! Forms of lines that tell of failures: frames, exceptions, words of errors, and what only looks like them.

use std::sync::LazyLock;

use regex::Regex;

/// Maximum characters of a quoted text.
pub(super) const CHARS: usize = 400;

/// A frame of a Python traceback: the file and the line number.
static FRAME: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"^\s*[|+>]?\s*File "([^"]{1,300})", line (\d+)"#).ok());

/// A class of an exception at the start of a text.
static EXCEPTION: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Failure|Interrupt|Exit|Timeout|Failed|Dead|Fault|Died))(?:\(\w+\))?(?::|\(|$)").ok()
});

/// A warning among the events of Kubernetes.
const EVENT: &str = r"^\s*(?:\S+\s+)?Warning\s+[A-Z][A-Za-z]+\s";

/// Texts that are errors without a level.
pub(super) static STRONG: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let forms = [
        r"^(?:panic|fatal error|fatal|[Ee]rror|ERROR|LLVM ERROR): ",
        r"^thread '.*' panicked at",
        r"^terminate called ",
        r"^(?:Fatal Python error|Segmentation fault|\*\*\* SIG|Bus error|Illegal instruction|Aborted \(core dumped\))",
        EVENT,
        // A compiler's own words.
        r"\.(?:cu|cuh|ptx|cpp|cc|c|h|hpp)(?:\(\d+\)|:\d+(?::\d+)?): (?:fatal )?error",
        r"^ptxas .*\b(?:fatal|error)\b",
        r"^\s*(?:Reason|Exit Code):\s+(?:OOMKilled|Error|ContainerCannotRun|StartError|DeadlineExceeded|[1-9]\d*)\s*$",
        r"NVRM: (?:Xid|.*(?i:fail|error|assert|unable|not found))",
        r"\bSXid \(|\bNCCL WARN |\*ERROR\*|GGML_ASSERT\(|CUDA error|HIP error|hipError[A-Z]|cudaError[A-Z]",
    ];
    Regex::new(&forms.join("|")).ok()
});

/// Reports of the kernel, which begin like the level of a program.
pub(super) static KERNEL_REPORT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"^(?:WARNING: CPU: \d|BUG: |Oops: |general protection fault|(?:rcu: )?INFO: (?:task \S+ blocked|rcu_\w+ ))",
    )
    .ok()
});

/// Words of failures, for lines without a level.
pub(super) static WEAK: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:failed|failure|fatal|aborted|crashed|segfault|exception|timed out|unreachable|refused|unable to|could not|cannot|out of memory|core dumped|error)\b|[A-Za-z](?:Error|Exception)\b").ok()
});

/// The word of a line's level, if it is a warning.
pub(super) static WARNING: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"\bWARN(?:ING)?\b|\[W\]|\bW\d{4} |"?level"?[=:] ?"?warn"#).ok());

/// Texts of warnings that another program has failed.
pub(super) static ENDED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?i)\b(?:exited with error|terminated unexpectedly|exit(?:ed)?(?: with)?[ _](?:status|code)[:=]? ?-?(?:0x0*[1-9a-f]|0*[1-9]))",
    )
    .ok()
});

/// The text of a warning that quotes an exception.
pub(super) static QUOTED: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"[A-Za-z](?:Error|Exception)(?:\(['"]|: )"#).ok());

/// The text of a warning that says that something failed.
pub(super) static SUSPECT: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\b(?:[Ff]ailed to|[Uu]nable to|[Cc]ould not) ").ok());

/// Texts with such words that tell of no failure: an access line, a counter, a line of a stack.
pub(super) static CALM: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r#"HTTP/\d|(?i:\b(?:0|no) (?:errors?|failures?|failed)\b|\b(?:errors?|failures?|failed\w*)["']?\s?[=:]\s?["']?(?:0|none|null|false)\b)|^Exception raised from |raise_exception\(|\b[A-Z]\w*Warning: |\b(?i:fall(?:s|ing)? back)\b|(?:status|code)[:=]? ?1(?:30|43)\b"#).ok()
});

/// Lines that quote what another program says: a warning of Kubernetes.
static QUOTES: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(EVENT).ok());

/// A frame of a native stack, which is never an error of its own.
pub(super) static NATIVE_FRAME: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^\s*(?:frame #\d+|\d+ +0x[0-9a-f]{6,} |(?:PC: )?@ +(?:0x[0-9a-f]{6,} |\.{3} and at least ))").ok()
});

/// Returns true for a line of which only what may stand in any log is known.
pub(super) fn quotes(body: &str) -> bool {
    has(&QUOTES, body)
}

/// A line below the panic of a Go program: the signal, a goroutine, a function, or its place.
pub(super) static GOROUTINE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^(?:\[signal |goroutine \d+ |created by |[\w./*()\[\]{}-]+\(.*\)$|\s+/\S+\.go:\d+)").ok()
});

/// Returns the place in a line below a panic, unless it is in Go's own library.
pub(super) fn go_frame(body: &str) -> Option<String> {
    let place = body.trim_start().starts_with('/').then(|| body.split_whitespace().next())??;
    let path: Vec<&str> = place.rsplit('/').take(2).collect();
    (!place.contains("/go/src/")).then(|| path.into_iter().rev().collect::<Vec<_>>().join("/"))
}

/// Returns true if a text has the form; false if the form could not be compiled.
pub(super) fn has(regex: &LazyLock<Option<Regex>>, text: &str) -> bool {
    regex.as_ref().is_some_and(|regex| regex.is_match(text))
}

/// An exception about a connection, as Python's own library raises it.
pub(super) static DISCONNECTED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^(?:Connection(?:Refused|Reset|Aborted)Error|socket\.gaierror|\w+: \[Errno (?:104|110|111|113|-\d)\])")
        .ok()
});

/// A peer with its port.
pub(super) static PEER: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let forms = [
        r"\bconnect\w* (?:to |with )?\S*[\w\]]:\d{2,5}\b",
        r"\b(?:to|at) \d+(?:\.\d+){3}:\d{2,5}\b",
        r"://[^/\s]*:\d{2,5}\b",
    ];
    Regex::new(&forms.join("|")).ok()
});

/// An exception that quotes another process's: its class stands in brackets, and its traceback follows.
pub(super) static OF_ANOTHER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^[\w.]+\([A-Za-z_]\w*\): ").ok());

/// Returns true for the marks that Python sets below a piece of code.
pub(super) fn is_caret(body: &str) -> bool {
    body.contains('^') && body.chars().all(|c| matches!(c, ' ' | '^' | '~'))
}

/// Returns true for a frame without indentation: a copy of a log may have lost it.
pub(super) fn is_flat(body: &str) -> bool {
    body.starts_with("File \"") && frame(body).is_some()
}

/// Returns the class of an exception at the start of a text.
pub(super) fn exception(body: &str) -> Option<String> {
    Some(printable(&EXCEPTION.as_ref()?.captures(body)?[1]))
}

/// Returns the word before the first colon, or the only word, as the class of an exception.
pub(super) fn class(body: &str) -> Option<String> {
    let word = body.split(':').next()?.trim();
    let fits = !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.'));
    fits.then(|| printable(word))
}

/// Returns the package of a frame's file, the empty one for the program's own.
pub(super) fn package(frame: &str) -> &str {
    let installed = frame.split_once("-packages/").map(|(_, path)| path);
    let standard = frame.split_once("/lib/python3").map(|_| "python");
    installed.and_then(|path| path.split('/').next()).or(standard).unwrap_or_default()
}

/// Returns the place of a frame: the last two parts of the path, and the line number.
pub(super) fn frame(body: &str) -> Option<String> {
    let parts = FRAME.as_ref()?.captures(body)?;
    let path: Vec<&str> = parts[1].rsplit(['/', '\\']).take(2).collect();
    Some(format!("{}:{}", path.into_iter().rev().collect::<Vec<_>>().join("/"), &parts[2]))
}

/// Returns the start of a text on one line. The end is left out, because a field whose name is missing cannot be redacted.
pub(super) fn printable(text: &str) -> String {
    let spaced = text.chars().map(|c| if c == '\t' { ' ' } else { c });
    spaced.filter(|c| !c.is_control()).take(CHARS).collect()
}
