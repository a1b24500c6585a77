//! A minimal YAML writer for rule files. Strings are double-quoted as in JSON, which YAML reads the same.

/// A group of rules.
pub(super) struct RuleGroup {
    /// The `PrometheusRule` that holds it: one for each group of recorded series, and one for all alerts.
    pub(super) object: String,
    name: String,
    pub(super) rules: String,
}

impl RuleGroup {
    pub(super) fn recording(of: &str) -> Self {
        let object = format!("llm-diagnose-record-{of}");
        Self { object, name: format!("llm-diagnose.record.{of}"), rules: String::new() }
    }

    pub(super) fn alerting(of: &str) -> Self {
        Self { object: "llm-diagnose-alerts".to_owned(), name: format!("llm-diagnose.{of}"), rules: String::new() }
    }

    pub(super) fn yaml(&self) -> String {
        format!("  - name: {}\n    rules:\n{}", self.name, self.rules)
    }
}

/// Returns a value in quotes.
pub(super) fn quoted(value: &str) -> String {
    serde_json::Value::from(value).to_string()
}

/// Writes `key: "value"` on a line of its own.
pub(super) fn text(out: &mut String, indent: usize, key: &str, value: &str) {
    out.push_str(&format!("{}{key}: {}\n", " ".repeat(indent), quoted(value)));
}

/// Writes a line of PromQL in single quotes, and several as a block scalar, so that they stay readable.
pub(super) fn block(out: &mut String, indent: usize, key: &str, value: &str) {
    let pad = " ".repeat(indent);
    if !value.contains('\n') {
        return out.push_str(&format!("{pad}{key}: '{}'\n", value.replace('\'', "''")));
    }
    out.push_str(&format!("{pad}{key}: |-\n"));
    for line in value.lines() {
        out.push_str(&format!("{pad}  {}\n", line.trim_end()));
    }
}

/// Returns a text two columns to the right.
pub(super) fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}
