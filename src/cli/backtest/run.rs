//! The stages of a run: read the firings, find the pools, diagnose the firings, read the pools' histories.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use jiff::Timestamp;

use super::Work;
use super::firing::DueFiring;
use super::key::id;
use super::read::{self, FiringsFile};
use super::state::FinishedPart;
use super::{Stopped, firing, firings, pools};
use ::backtest::{Firing, chosen, covers, names_pool, rule_counts};
use findings::Scope;
use findings::scope::pool_name;
use knowledge::alert::Labels;
use knowledge::clip::format_count;
use knowledge::clock;
use knowledge::gap::missing_part;
use knowledge::playbook::AlertRule;
use prom::{AlertingRule, PromError};

/// Severities of alerts that nobody looks at. Teams have many words for the others.
const QUIET: [&str; 5] = ["none", "info", "informational", "low", "debug"];
/// Names of rules that are asked for at once: some proxies limit the length of an address.
const RULES: usize = 50;

/// A pool, dimension to value.
type PoolLabels = BTreeMap<String, String>;

impl Work<'_> {
    /// Runs all stages; the findings are complete as far as they go whenever it is dropped.
    pub(super) async fn run(&mut self, file: Option<FiringsFile>) -> Result<(), Stopped> {
        let has_file = file.is_some();
        let all = self.firings(file).await?;
        let (rules, unread) = self.rules(&all).await;
        if all.is_empty() && !has_file && rules.is_empty() {
            let why = "Prometheus has no series `ALERTS` in this range and no alerting rule: pass --firings if another program \
                       evaluates the rules";
            self.findings.limits.push(why.to_owned());
        }
        let days = self.days().await?;
        let all_pools = pools::pools(&days);
        let (ours, due) = self.due(all, &rules, &all_pools, unread);
        let truths = self.truths(&due);
        for firing in &mut self.findings.firings {
            firing.truth = truths.get(&firing.id).cloned();
        }
        firings::diagnose(self, due, &truths).await?;
        let pools = self.chosen_pools(&all_pools, &ours);
        // Alerts without the wanted labels tell of a symptom all the same.
        self.histories(&days, &pools, &ours).await
    }

    /// Reads the firings, of the time before the range too if they lasted into it.
    async fn firings(&mut self, file: Option<FiringsFile>) -> Result<Vec<Firing>, Stopped> {
        let (from, to) = self.setting.range;
        let firings = match file {
            Some(file) => {
                let open = file.firings.iter().filter(|firing| firing.ends_at.is_none()).count();
                if open > 0 {
                    let firings = format_count(open, "firing");
                    let why = "each counts for four hours, Alertmanager's usual `repeat_interval`";
                    self.findings.problems.push(format!("{firings} of the file have no resolved notification: {why}"));
                }
                let is_inside = |firing: &Firing| firing.starts_at <= to && firing.over_at(to) >= from;
                let (inside, outside): (Vec<_>, Vec<_>) = file.firings.into_iter().partition(is_inside);
                if inside.is_empty() {
                    let firings = format_count(outside.len(), "firing");
                    let why = format!("the file has {firings}, none of them in this range: pass --since and --until");
                    self.findings.limits.push(why);
                }
                self.findings.left_out.outside = rule_counts(&outside);
                inside
            }
            None => {
                let (mut firings, incomplete) = read::from_prometheus(self.setting).await?;
                let missing = |said: String| format!("firings may be missing: {}", missing_part(&said));
                self.findings.limits.extend(incomplete.map(missing));
                firings.retain(|firing| firing.over_at(to) >= from);
                firings
            }
        };
        Ok(firings)
    }

    /// Reads the rules of these firings; without firings all rules, to know whether there are any. Returns the error as well
    /// if not all could be read.
    async fn rules(&self, firings: &[Firing]) -> (Vec<AlertingRule>, Option<PromError>) {
        let setting = self.setting;
        let names: Vec<String> =
            BTreeSet::from_iter(firings.iter().map(|firing| firing.rule().to_owned())).into_iter().collect();
        let deadline = || Instant::now() + setting.config.deadline;
        let (mut all, mut unread) = (Vec::new(), None);
        let mut answers = Vec::new();
        match names.as_slice() {
            [] => answers.push(setting.prometheus.alerting_rules(deadline()).await),
            names => {
                for names in names.chunks(RULES) {
                    answers.push(setting.prometheus.rules_named(names, deadline()).await);
                }
            }
        }
        for answer in answers {
            match answer {
                Ok(rules) => all.extend(rules),
                Err(error) => unread = Some(error),
            }
        }
        (all, unread)
    }

    /// Finds the pools of each day.
    async fn days(&mut self) -> Result<Vec<pools::Day>, Stopped> {
        let (from, to) = self.setting.range;
        let count = clock::between(from, to).as_secs().div_ceil(86_400);
        self.progress.stage("days with pools", usize::try_from(count).unwrap_or(usize::MAX), 0);
        let (days, lost, is_open) = pools::days(self.setting, || self.progress.step(self.setting.queries())).await?;
        self.state.has_open_parts |= is_open;
        self.findings.limits.extend(lost);
        let empty = days.iter().filter(|day| day.is_empty()).count();
        if empty == days.len() && !days.is_empty() {
            self.findings.limits.push(
                "no pool of an LLM engine has data in this range: is this the Prometheus of the fleet, and does it keep data for so long?"
                    .to_owned(),
            );
        } else if empty > 0 {
            let first = days.iter().find(|day| !day.is_empty()).map(|day| format!("{:.0}", day.from()));
            let (of, first) = (days.len(), first.unwrap_or_default());
            self.findings
                .limits
                .push(format!("{empty} of {of} days have no pool with data; the first with one begins at {first}"));
        }
        Ok(days)
    }

    /// Selects the firings that are about a pool, each with its playbook, and those of them that are diagnosed.
    fn due(
        &mut self,
        all: Vec<Firing>,
        rules: &[AlertingRule],
        all_pools: &BTreeSet<PoolLabels>,
        unread: Option<PromError>,
    ) -> (Vec<(Firing, String)>, Vec<DueFiring>) {
        let setting = self.setting;
        let shipped: Vec<&AlertRule> =
            setting.library.playbooks.values().flat_map(|playbook| &playbook.alerts).collect();
        let mut ours: Vec<(Firing, String)> = Vec::new();
        let mut elsewhere = Vec::new();
        for mut firing in all {
            let playbook = firing::playbook(setting, rules, &firing);
            if !playbook.is_empty() || !firing::pools_of(&firing, all_pools).is_empty() {
                read::date_condition(&mut firing, rules, &shipped);
                ours.push((firing, playbook));
            } else if self.is_wanted(&firing) {
                elsewhere.push(firing);
            }
        }
        let unselected = elsewhere.len() + ours.iter().filter(|(_, playbook)| playbook.is_empty()).count();
        if let Some(error) = unread.filter(|_| unselected > 0) {
            let firings = format_count(unselected, "firing");
            let what = "a rule's expression may tell what they are about; a label `playbook: <id>` does too";
            self.findings
                .limits
                .push(format!("{firings} selected no playbook, and the rules are not known ({error}): {what}"));
        }
        if !ours.is_empty() && !ours.iter().any(|(firing, _)| self.is_wanted(firing)) {
            self.findings.limits.push("no firing about a pool has the labels of --label".to_owned());
        }
        let wanted = ours.iter().filter(|(firing, _)| self.is_wanted(firing)).map(|(firing, _)| firing.clone());
        let (wanted, before): (Vec<Firing>, Vec<Firing>) =
            wanted.partition(|firing| firing.starts_at >= setting.range.0);
        let (chosen, over_maximum) = chosen(wanted, self.args.max_firings as usize);
        let left_out = &mut self.findings.left_out;
        (left_out.elsewhere, left_out.before) = (rule_counts(&elsewhere), rule_counts(&before));
        left_out.over_maximum = over_maximum;
        let playbooks: BTreeMap<(Timestamp, &BTreeMap<String, String>), &String> =
            ours.iter().map(|(firing, playbook)| ((firing.starts_at, &firing.labels), playbook)).collect();
        let due = chosen
            .into_iter()
            .map(|firing| {
                let id = id(&firing.labels, Some(firing.starts_at));
                let playbook = playbooks.get(&(firing.starts_at, &firing.labels)).copied().cloned().unwrap_or_default();
                let pool = match firing::pools_of(&firing, all_pools).as_slice() {
                    [one] => pool_name(one),
                    _ => pool_name(&Scope::of_labels(&firing.labels).dimensions),
                };
                DueFiring { id, firing, playbook, pool }
            })
            .collect();
        (ours, due)
    }

    /// Returns true if a firing has the labels of `--label`, by name, or as what they say about a pool: `model=X` is
    /// `model_name=X` too.
    fn is_wanted(&self, firing: &Firing) -> bool {
        // As Alertmanager gets them: an alert's own label counts before the one that Prometheus adds.
        let mut labels = self.external.clone();
        labels.extend(firing.labels.clone());
        let scope = Scope::of_labels(&labels);
        self.args.only.iter().all(|(name, value)| {
            let asked = Scope::of_labels(&[(name.clone(), value.clone())].into());
            let is_scope = !asked.dimensions.is_empty()
                && asked.dimensions.iter().all(|(dimension, value)| scope.dimensions.get(dimension) == Some(value));
            is_scope || labels.get(name) == Some(value)
        })
    }

    /// Returns the true causes of these firings by id.
    fn truths(&mut self, due: &[DueFiring]) -> BTreeMap<String, String> {
        let known: BTreeMap<String, &Firing> = due.iter().map(|due| (due.id.clone(), &due.firing)).collect();
        let (truths, problems) = self.causes.of(&known, self.setting.range.1);
        self.findings.problems.extend(problems);
        truths
    }

    /// Selects the pools whose histories are read: those with the labels of `--label`, the ones with the most firings first.
    fn chosen_pools<'a>(&mut self, all: &'a BTreeSet<PoolLabels>, ours: &[(Firing, String)]) -> Vec<&'a PoolLabels> {
        // What Prometheus adds, all of its pools have.
        let only: Labels =
            self.args.only.iter().filter(|(name, value)| self.external.get(name) != Some(value)).cloned().collect();
        let scope = Scope::of_labels(&only);
        let wanted: Vec<Scope> = ours
            .iter()
            .filter(|(firing, _)| self.is_wanted(firing))
            .map(|(firing, _)| Scope::of_labels(&firing.labels))
            .collect();
        let firings = |pool: &PoolLabels| wanted.iter().filter(|scope| covers(scope, pool)).count();
        // A label such as `team` says nothing about pools: then those of the wanted firings count.
        let is_of_pools = scope.dimensions.len() == only.len();
        let mut pools: Vec<&PoolLabels> =
            all.iter().filter(|pool| covers(&scope, pool) && (is_of_pools || firings(pool) > 0)).collect();
        pools.sort_by_key(|pool| Reverse(firings(pool)));
        let most = self.args.max_pools as usize;
        if pools.is_empty() && !all.is_empty() {
            self.findings.limits.push("no pool has the labels of --label, and no firing about one".to_owned());
        }
        if pools.len() > most {
            let (n, of) = (pools.len() - most, pools.len());
            self.findings.limits.push(format!(
                "the histories of {n} of {of} pools, those with the fewest firings, were not read: pass more by --max-pools"
            ));
            pools.truncate(most);
        }
        pools
    }

    /// Reads the histories of the pools that no earlier run has read.
    async fn histories(
        &mut self,
        days: &[pools::Day],
        all: &[&PoolLabels],
        ours: &[(Firing, String)],
    ) -> Result<(), Stopped> {
        let finished = self.state.finished.iter().filter_map(|part| match part {
            FinishedPart::Pool(pool) => Some(pool.id.clone()),
            FinishedPart::Firing(_) => None,
        });
        let finished: BTreeSet<String> = finished.collect();
        let open: Vec<(String, &PoolLabels)> =
            all.iter().map(|pool| (id(pool, None), *pool)).filter(|(id, _)| !finished.contains(id)).collect();
        self.progress.stage("pools", all.len(), all.len() - open.len());
        for (id, pool) in open {
            let alerts = telling(ours, pool);
            let judged = pools::judged(self.setting, &id, pool, days, &alerts).await?;
            if judged.is_open {
                self.state.has_open_parts = true;
            } else {
                self.state.add(&FinishedPart::Pool(Box::new(judged.clone()))).map_err(Stopped::Failed)?;
            }
            judged.add_to(self.findings);
            self.progress.step(self.setting.queries());
        }
        Ok(())
    }
}

/// Returns the firings that tell somebody of a symptom of this pool: of rules with a playbook, and of others that name the
/// pool and that somebody looks at.
fn telling(ours: &[(Firing, String)], pool: &PoolLabels) -> Vec<Firing> {
    let is_quiet = |firing: &Firing| {
        let severity = firing.labels.get("severity").map(|severity| severity.to_ascii_lowercase());
        severity.is_some_and(|severity| QUIET.contains(&severity.as_str()))
    };
    let names = |firing: &Firing| names_pool(&Scope::of_labels(&firing.labels), pool);
    let telling = ours.iter().filter(|(firing, playbook)| !playbook.is_empty() || names(firing) && !is_quiet(firing));
    telling.map(|(firing, _)| firing.clone()).collect()
}
