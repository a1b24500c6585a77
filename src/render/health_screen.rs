//! Fleet health ─▶ terminal: one screen, aligned, readable without colour.

use anstyle::Style;

use super::Phrases;
use super::facts::FEW;
use super::health::{HealthWords, PoolWords, checks, missing, tone, word};
use super::text::{clean, hang, hang_line, table, tone_style, wrap};
use findings::health::Health;

/// Maximum number of pools with details, if there are several.
const SCREENFUL: usize = 5;
/// Maximum characters of a line of the headline, of a command or of the last words.
const LINE: usize = 90;

/// Renders fleet health as terminal text with ANSI styles; `anstream` strips them where they are not supported.
///
/// A single pool is shown completely. Of several pools, a table shows each in brief; below it are the problems of the
/// worst, and missing data once for all. `flags` are the flags, by name, that the suggested next command needs too.
pub fn health(health: &Health, flags: &[(&str, String)], words: &Phrases) -> String {
    let told = &HealthWords::new(health, words);
    let tone = tone_style(tone(health.state));
    let (bold, dim) = (Style::new().bold(), Style::new().dimmed());
    let at = health.at.strftime("%Y-%m-%d %H:%M:%S UTC");
    let headline = wrap(&clean(&format!("{} · {at}", told.headline)), LINE).join("\n  ");
    let mut out = format!("{tone}▌ {headline}{tone:#}\n");
    told.notes.iter().for_each(|note| hang_line(&mut out, "", note));
    let alone = told.pools.len() == 1;
    if told.pools.len() > 1 {
        out.push_str(&format!("\n{}", table(&told.summary(words))));
    }
    let detailed = told.pools.iter().filter(|pool| alone || pool.health.state.is_wrong());
    detailed.take(SCREENFUL).for_each(|pool| details(&mut out, pool, alone, flags, words));
    let missing = missing(&told.pools, if alone { usize::MAX } else { FEW }, words);
    if !missing.is_empty() {
        out.push_str(&format!("\n{bold}{}{bold:#}\n", words.text("health-unseen", &[])));
        missing.iter().for_each(|gap| hang_line(&mut out, "? ", gap));
    }
    if !told.foot.is_empty() {
        out.push_str(&format!("\n{dim}{}{dim:#}\n", wrap(&told.foot.text(), LINE).join("\n")));
    }
    out
}

/// Writes a pool with its failing checks and the next command; with `all`, also with its other values.
fn details(out: &mut String, pool: &PoolWords<'_>, all: bool, flags: &[(&str, String)], words: &Phrases) {
    let tone = tone_style(tone(pool.health.state));
    let state = word(pool.health.state, words);
    let gap = if all { "" } else { "\n" };
    out.push_str(&format!("{gap}{tone}{state}{tone:#} · {}\n", clean(&pool.name)));
    hang(out, "  ", "", &pool.about);
    let others: &[_] = if all { &pool.seen } else { &[] };
    out.push_str(&table(&checks("checks", &pool.name, &[&pool.wrong, others].concat(), words)));
    let Some(playbook) = pool.wrong.first().and_then(|check| check.playbook.as_ref()) else { return };
    let labels = &pool.health.labels;
    let is_known = |label: &str| label.split_once('=').is_some_and(|(name, _)| labels.contains_key(name));
    let kept = flags.iter().filter(|(name, value)| *name != "label" || !is_known(value)).cloned();
    let labels = labels.iter().map(|(name, value)| ("label", format!("{name}={value}")));
    let flags: String = labels.chain(kept).map(|(name, value)| format!(" --{name}={}", quoted(&value))).collect();
    let command = clean(&format!("llm-diagnose diagnose --playbook {playbook}{flags}"));
    let command = wrap(&command, LINE).join(" \\\n    ");
    out.push_str(&format!("  {} {command}\n", words.text("health-next", &[])));
}

/// Quotes a text as one word for a shell.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "=._/:-".contains(c);
    if text.chars().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}
