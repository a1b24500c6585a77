//! A minimal YAML writer for rule files. Strings are double-quoted as in JSON, which YAML reads the same.

/// Returns a value in quotes.
pub(super) fn quoted(value: &str) -> String {
    serde_json::Value::from(value).to_string()
}

/// Writes `key: "value"` on a line of its own.
pub(super) fn text(out: &mut String, indent: usize, key: &str, value: &str) {
    out.push_str(&format!("{}{key}: {}\n", " ".repeat(indent), quoted(value)));
}

/// Writes a block scalar, so that long PromQL stays readable.
pub(super) fn block(out: &mut String, indent: usize, key: &str, value: &str) {
    let pad = " ".repeat(indent);
    out.push_str(&format!("{pad}{key}: |-\n"));
    for line in value.lines() {
        out.push_str(&format!("{pad}  {}\n", line.trim_end()));
    }
}
