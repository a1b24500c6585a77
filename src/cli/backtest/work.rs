//! The stages of a run: read the firings, find the pools, diagnose the firings, read the pools' histories.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use jiff::Timestamp;

use super::firings::{self, DueFiring};
use super::key::id;
use super::labels::TrueCauses;
use super::progress::BacktestProgress;
use super::read::{self, FiringsFile};
use super::state::{BacktestState, FinishedPart};
use super::{BacktestFindings, Setting, Stopped, firing, pools};
use crate::cli::args::BacktestArgs;
use crate::clip::format_count;
use crate::clock;
use crate::diagnose::Scope;
use crate::playbook::AlertRule;
use crate::prom::{AlertingRule, PromError};
use crate::report::backtest::{Firing, chosen, covers};

/// Severities of alerts that somebody looks at, so that nobody needs to be told by another one.
const URGENT: [&str; 5] = ["critical", "warning", "error", "page", "high"];
/// Names of rules that are asked for at once: some proxies limit the length of an address.
const RULES: usize = 50;

/// A run.
pub(super) struct Work<'a> {
    pub(super) args: &'a BacktestArgs,
    pub(super) setting: &'a Setting<'a>,
    pub(super) causes: &'a TrueCauses,
    pub(super) state: &'a mut BacktestState,
    pub(super) progress: &'a mut BacktestProgress,
    pub(super) findings: &'a mut BacktestFindings,
}

/// A pool, dimension to value.
type PoolLabels = BTreeMap<String, String>;

impl Work<'_> {
    /// Runs all stages; the findings are complete as far as they go whenever it is dropped.
    pub(super) async fn run(&mut self, file: Option<FiringsFile>) -> Result<(), Stopped> {
        let has_file = file.is_some();
        let all = self.firings(file).await?;
        let rules = self.rules(&all).await;
        if all.is_empty() && !has_file && rules.is_empty() {
            let why = "Prometheus has no series `ALERTS` in this range and no alerting rule: pass --firings if another program \
                       evaluates the rules";
            self.findings.limits.push(why.to_owned());
        }
        let days = self.days().await?;
        let all_pools = pools::pools(&days);
        let (ours, due) = self.due(all, &rules, &all_pools);
        let truths = self.truths(&due);
        for firing in &mut self.findings.firings {
            firing.truth = truths.get(&firing.id).cloned();
        }
        let unanswered = firings::diagnose(self, due, &truths).await?;
        let pools = self.chosen_pools(&all_pools, &ours);
        // Alerts without the wanted labels tell of a symptom all the same.
        let alerts: Vec<Firing> = ours
            .into_iter()
            .filter(|(firing, playbook)| !playbook.is_empty() || is_urgent(firing))
            .map(|(f, _)| f)
            .collect();
        self.histories(&days, &pools, &alerts).await?;
        match unanswered {
            None => Ok(()),
            Some(why) => Err(Stopped::Prometheus(why)),
        }
    }

    /// Reads the firings, of the time before the range too if they lasted into it.
    async fn firings(&mut self, file: Option<FiringsFile>) -> Result<Vec<Firing>, Stopped> {
        let (from, to) = self.setting.range;
        let mut firings = match file {
            Some(file) => {
                let open = file.firings.iter().filter(|firing| firing.ends_at.is_none()).count();
                if open > 0 {
                    let firings = format_count(open, "firing");
                    let why = "each counts for four hours, Alertmanager's usual `repeat_interval`";
                    self.findings.problems.push(format!("{firings} of the file have no resolved notification: {why}"));
                }
                file.firings
            }
            None => read::from_prometheus(self.setting).await?,
        };
        firings.retain(|firing| firing.starts_at <= to && firing.over_at(to) >= from);
        Ok(firings)
    }

    /// Reads the rules of these firings; without firings all rules, to know whether there are any.
    async fn rules(&mut self, firings: &[Firing]) -> Vec<AlertingRule> {
        let setting = self.setting;
        let names: Vec<String> =
            BTreeSet::from_iter(firings.iter().map(|firing| firing.rule().to_owned())).into_iter().collect();
        let deadline = || Instant::now() + setting.config.deadline;
        let mut all = Vec::new();
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
                // Servers without this API, such as VictoriaMetrics, still have the shipped rules' data.
                Err(PromError::Lacking(_)) => {}
                Err(error) => self.findings.problems.push(format!(
                    "the alerting rules could not be read: {error}; alerts without a playbook label or a shipped name select none"
                )),
            }
        }
        all
    }

    /// Finds the pools of each day.
    async fn days(&mut self) -> Result<Vec<pools::Day>, Stopped> {
        let (from, to) = self.setting.range;
        let count = clock::between(from, to).as_secs().div_ceil(86_400);
        self.progress.stage("days with pools", usize::try_from(count).unwrap_or(usize::MAX), 0);
        let days = pools::days(self.setting, || self.progress.step(self.setting.queries())).await?;
        let empty = days.iter().filter(|day| day.is_empty()).count();
        if empty == days.len() {
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
    ) -> (Vec<(Firing, String)>, Vec<DueFiring>) {
        let setting = self.setting;
        let shipped: Vec<&AlertRule> =
            setting.library.playbooks.values().flat_map(|playbook| &playbook.alerts).collect();
        let mut ours: Vec<(Firing, String)> = Vec::new();
        for mut firing in all {
            let playbook = firing::playbook(setting, rules, &firing);
            if !playbook.is_empty() || !firing::pools_of(&firing, all_pools).is_empty() {
                read::date_condition(&mut firing, rules, &shipped);
                ours.push((firing, playbook));
            } else if self.is_wanted(&firing) {
                *self.findings.left_out.elsewhere.entry(firing.rule().to_owned()).or_default() += 1;
            }
        }
        let wanted = ours.iter().filter(|(firing, _)| self.is_wanted(firing)).map(|(firing, _)| firing.clone());
        let (wanted, before): (Vec<Firing>, Vec<Firing>) =
            wanted.partition(|firing| firing.starts_at >= setting.range.0);
        for firing in before {
            *self.findings.left_out.before.entry(firing.rule().to_owned()).or_default() += 1;
        }
        let (chosen, over) = chosen(wanted, self.args.max_firings as usize);
        self.findings.left_out.over_maximum = over;
        let playbooks: BTreeMap<(Timestamp, &BTreeMap<String, String>), &String> =
            ours.iter().map(|(firing, playbook)| ((firing.starts_at, &firing.labels), playbook)).collect();
        let due = chosen
            .into_iter()
            .map(|firing| {
                let id = id(&firing.labels, Some(firing.starts_at));
                let playbook = playbooks.get(&(firing.starts_at, &firing.labels)).copied().cloned().unwrap_or_default();
                let pool = match firing::pools_of(&firing, all_pools).as_slice() {
                    [one] => pools::name(one),
                    _ => pools::name(&Scope::of_labels(&firing.labels).dimensions),
                };
                DueFiring { id, firing, playbook, pool }
            })
            .collect();
        (ours, due)
    }

    /// Returns true if a firing has the labels of `--label`, by name, or as what they say about a pool: `model=X` is
    /// `model_name=X` too.
    fn is_wanted(&self, firing: &Firing) -> bool {
        let scope = Scope::of_labels(&firing.labels);
        self.args.only.iter().all(|(name, value)| {
            let asked = Scope::of_labels(&[(name.clone(), value.clone())].into());
            let is_scope = !asked.dimensions.is_empty()
                && asked.dimensions.iter().all(|(dimension, value)| scope.dimensions.get(dimension) == Some(value));
            is_scope || firing.labels.get(name) == Some(value)
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
        let scope = Scope::of_labels(&self.args.only.iter().cloned().collect());
        let wanted: Vec<Scope> = ours
            .iter()
            .filter(|(firing, _)| self.is_wanted(firing))
            .map(|(firing, _)| Scope::of_labels(&firing.labels))
            .collect();
        let firings = |pool: &PoolLabels| wanted.iter().filter(|scope| covers(scope, pool)).count();
        // A label such as `team` says nothing about pools: then those of the wanted firings count.
        let is_of_pools = scope.dimensions.len() == self.args.only.len();
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
    async fn histories(&mut self, days: &[pools::Day], all: &[&PoolLabels], alerts: &[Firing]) -> Result<(), Stopped> {
        let finished = self.state.finished.iter().filter_map(|part| match part {
            FinishedPart::Pool(pool) => Some(pool.id.clone()),
            FinishedPart::Firing(_) => None,
        });
        let finished: BTreeSet<String> = finished.collect();
        let open: Vec<(String, &PoolLabels)> =
            all.iter().map(|pool| (id(pool, None), *pool)).filter(|(id, _)| !finished.contains(id)).collect();
        self.progress.stage("pools", all.len(), all.len() - open.len());
        for (id, pool) in open {
            let judged = pools::judged(self.setting, &id, pool, days, alerts).await?;
            self.state.add(&FinishedPart::Pool(Box::new(judged.clone()))).map_err(Stopped::Failed)?;
            self.findings.add_pool(judged);
            self.progress.step(self.setting.queries());
        }
        Ok(())
    }
}

fn is_urgent(firing: &Firing) -> bool {
    firing.labels.get("severity").is_some_and(|severity| URGENT.contains(&severity.to_ascii_lowercase().as_str()))
}
