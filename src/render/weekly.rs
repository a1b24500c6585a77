//! The weekly and the daily summary of a channel as a message; each line links to an incident.

use jiff::Timestamp;

use super::{PhraseArgument, Phrases};
use findings::scope::pool_name;
use knowledge::alert::Labels;
use knowledge::clip::clip;
use knowledge::clock::human_duration;
use knowledge::incident::short_id;
use message::{Block, Line, Message, Tone};
use report::weekly::{WeeklyCause, WeeklyGap, WeeklySummary, WeeklyTimes};

/// Maximum number of causes, and of causes that return.
const CAUSES: usize = 8;
const RETURNS: usize = 5;
/// Maximum characters of a title, a step or a result.
const SHORT: usize = 90;
/// Maximum characters of what turns a signal on.
const ENABLE: usize = 160;

/// Renders the summary. `pages` is the address of the incidents' pages, without a slash at its end; without it the lines
/// carry the short ids, which the commands understand.
pub fn weekly_message(summary: &WeeklySummary, pages: Option<&str>, words: &Phrases) -> Message {
    let view = View { summary, pages, words };
    let sections = [
        ("weekly-numbers", view.numbers()),
        ("weekly-causes", view.causes()),
        ("weekly-returns", view.returns()),
        ("weekly-open", view.open()),
        ("weekly-blind", view.blind()),
    ];
    view.message("weekly-headline", sections)
}

/// Renders the summary of a day: the incidents that had no message of their own. `pages` as in [`weekly_message`].
pub fn daily_message(summary: &WeeklySummary, pages: Option<&str>, words: &Phrases) -> Message {
    let view = View { summary, pages, words };
    view.message("daily-headline", [("weekly-causes", view.causes()), ("weekly-open", view.open())])
}

struct View<'a> {
    summary: &'a WeeklySummary,
    pages: Option<&'a str>,
    words: &'a Phrases,
}

impl View<'_> {
    fn message<const N: usize>(&self, headline: &str, sections: [(&str, Vec<Line>); N]) -> Message {
        let Self { summary, words, .. } = self;
        let counts = [
            ("channel", summary.channel.as_str().into()),
            ("incidents", summary.incidents.into()),
            ("before", summary.before.into()),
            ("open", summary.open.into()),
        ];
        let sections = sections.into_iter().filter(|(_, lines)| !lines.is_empty());
        let mut parts: Vec<Block> = sections.map(|(key, lines)| Block::Section(words.text(key, &[]), lines)).collect();
        parts.push(Block::Note(self.foot()));
        let tone = if summary.open == 0 { Tone::Good } else { Tone::Firing };
        Message { tone, headline: words.text(headline, &counts), parts }
    }

    /// Links to an incident's page; without pages the label with the short id.
    fn link(&self, label: &str, incident: &str) -> Line {
        match self.pages {
            Some(pages) => Line::default().link(label, format!("{pages}/{incident}")),
            None => Line::default().plain(label).plain(" ").code(short_id(incident)),
        }
    }

    /// Links a title to an incident's page, and names the pool.
    fn titled(&self, title: &str, pool: &Labels, incident: &str) -> Line {
        let line = self.link(&clip(title, SHORT), incident);
        match clip(&pool_name(pool), SHORT) {
            pool if pool.is_empty() => line,
            pool => line.plain(format!(" · {pool}")),
        }
    }

    fn numbers(&self) -> Vec<Line> {
        let summary = self.summary;
        if summary.incidents == 0 {
            return Vec::new();
        }
        let counted = |key: &str, n: u64| {
            let counts: [(&str, PhraseArgument); 2] = [("n", n.into()), ("incidents", summary.read.into())];
            (n > 0).then(|| self.words.line(key, &counts))
        };
        let taken = self.times("weekly-acknowledged", summary.acknowledged.as_ref());
        let lines = [
            self.times("weekly-first", summary.first_message.as_ref()),
            Some(taken.unwrap_or_else(|| self.words.line("weekly-nobody", &[]))),
            self.times("weekly-over", summary.resolved.as_ref()),
            counted("weekly-refired", summary.refired),
            counted("weekly-stale", summary.stale),
        ];
        lines.into_iter().flatten().collect()
    }

    fn times(&self, key: &str, times: Option<&WeeklyTimes>) -> Option<Line> {
        let times = times?;
        let spoken = |seconds: u64| human_duration(std::time::Duration::from_secs(seconds));
        let pieces = [
            ("n", times.incidents.into()),
            ("incidents", self.summary.read.into()),
            ("median", spoken(times.median_seconds).into()),
            ("longest", self.link(&spoken(times.longest_seconds), &times.longest).into()),
        ];
        Some(self.words.line(key, &pieces))
    }

    fn causes(&self) -> Vec<Line> {
        let cause = |cause: &WeeklyCause| {
            let titled = self.titled(&cause.title, &cause.pool, &cause.count.newest);
            self.words.line("weekly-cause", &[("n", cause.count.incidents.into()), ("cause", titled.into())])
        };
        let mut lines: Vec<Line> = self.summary.causes.iter().take(CAUSES).map(cause).collect();
        let more = self.summary.causes.len().saturating_sub(CAUSES) as u64 + self.summary.more_causes;
        if more > 0 {
            lines.push(self.words.line("weekly-causes-more", &[("n", more.into())]));
        }
        if let Some(unexplained) = &self.summary.unexplained {
            let newest = self.link(&self.words.text("weekly-unexplained-newest", &[]), &unexplained.newest);
            let pieces = [("n", unexplained.incidents.into()), ("newest", newest.into())];
            lines.push(self.words.line("weekly-unexplained", &pieces));
        }
        lines
    }

    fn returns(&self) -> Vec<Line> {
        self.summary
            .causes
            .iter()
            .filter(|cause| cause.returns())
            .take(RETURNS)
            .map(|cause| self.returning(cause))
            .collect()
    }

    fn returning(&self, cause: &WeeklyCause) -> Line {
        let pieces = [
            ("cause", self.titled(&cause.title, &cause.pool, &cause.count.newest).into()),
            ("n", cause.count.incidents.into()),
            ("before", cause.before.into()),
            ("day", cause.last_before.map(day).unwrap_or_default().into()),
        ];
        let line = self.words.line("weekly-return", &pieces);
        let short = |text: &str| PhraseArgument::from(clip(text.trim(), SHORT));
        let Some(step) = &cause.done else {
            return self.words.line("weekly-return-undone", &[("line", line.into())]);
        };
        let line = self.words.line("weekly-return-done", &[("line", line.into()), ("step", short(step))]);
        match &cause.verified {
            Some(result) => {
                self.words.line("weekly-return-verified", &[("line", line.into()), ("result", short(result))])
            }
            None => line,
        }
    }

    fn open(&self) -> Vec<Line> {
        let unnamed = self.words.text("weekly-open-unnamed", &[]);
        let listed = self.summary.still_open.iter().map(|open| {
            let title = if open.title.is_empty() { &unnamed } else { &open.title };
            let what = self.titled(title, &open.pool, &open.incident);
            let pieces = [("what", what.into()), ("since", moment(open.since).into())];
            self.words.line("weekly-open-line", &pieces)
        });
        let mut lines: Vec<Line> = listed.collect();
        let more = self.summary.open.saturating_sub(lines.len() as u64);
        if more > 0 {
            lines.push(self.words.line("weekly-open-more", &[("n", more.into())]));
        }
        lines
    }

    fn blind(&self) -> Vec<Line> {
        self.summary.blind.iter().map(|gap| self.gap(gap)).collect()
    }

    fn gap(&self, WeeklyGap { missing, count }: &WeeklyGap) -> Line {
        let (key, what) = match missing.what.as_str() {
            // There is no data about the pool at all, for this reason.
            "pool" => ("weekly-blind-pool", &missing.why),
            what => ("weekly-blind-line", &what.to_owned()),
        };
        let what = self.link(&clip(what, SHORT), &count.newest);
        let line = self.words.line(key, &[("n", count.incidents.into()), ("what", what.into())]);
        let Some(enable) = &missing.enable else { return line };
        let enable = Line::of(&clip(enable, ENABLE));
        self.words.line("weekly-blind-enable", &[("line", line.into()), ("enable", enable.into())])
    }

    fn foot(&self) -> Line {
        let summary = self.summary;
        let mut line = self
            .words
            .line("weekly-span", &[("since", moment(summary.since).into()), ("until", moment(summary.until).into())]);
        if summary.read < summary.incidents {
            line = line.plain(" · ").then(self.words.line("weekly-limit", &[("n", summary.read.into())]));
        }
        match self.pages {
            Some(pages) => line.plain(" · ").link(self.words.text("weekly-list", &[]), pages),
            None => line,
        }
    }
}

fn moment(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M UTC").to_string()
}

fn day(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d").to_string()
}
