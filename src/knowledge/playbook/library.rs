//! All loaded data, and the cause graph that it forms.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use super::{
    Cause, CauseEntry, Evidence, HealthyFleet, LogFile, Playbook, PlaybookKind, PoolKinds, PoolObjectives, Problem,
    QuickLook, Redaction, Replacement, ReportSignals, Slo, SourceFile, Step, Tables, Ticket, kinds::KindLibraries,
    load::JOINED, nearest, suggestion,
};
use crate::signal::{Engine, OwnLabels, Signal};

/// All loaded data: signals, engines, playbooks, causes, and the text of their files.
#[derive(Debug, Clone, Default)]
pub struct Library {
    /// Signal name to definition.
    pub signals: BTreeMap<String, Signal>,
    /// Engine name to its signal file.
    pub engines: BTreeMap<String, Engine>,
    /// Id to playbook.
    pub playbooks: BTreeMap<String, Playbook>,
    /// Id to shared leaf cause.
    pub causes: BTreeMap<String, Cause>,
    /// The signals of the `health` command.
    pub health: QuickLook,
    /// The values from which verdict tests start.
    pub healthy_fleet: HealthyFleet,
    /// The signals of a report.
    pub report: ReportSignals,
    /// Engine name to its log file.
    pub logs: BTreeMap<String, LogFile>,
    /// Id to the ticket form of a receiver.
    pub tickets: BTreeMap<String, Ticket>,
    /// The redaction rules.
    pub redaction: Redaction,
    /// Reference tables.
    pub tables: Tables,
    /// Path to text, for errors that show the line; a playbook and its test by their names, without a folder.
    pub files: BTreeMap<String, SourceFile>,
    /// Path of a shipped file to the paths of the user's files that change what it says.
    pub overridden: BTreeMap<String, Vec<String>>,
    /// The shipped things that a user's files replace or change.
    pub replacements: Vec<Replacement>,
    /// The parts of a user's files that do not fit the shipped data, and are left out.
    pub left_out: Vec<Problem>,
    /// The lints about a user's changes that were made, or that make no difference.
    pub remarks: Vec<Problem>,
    /// The id of a playbook or cause with each signal whose condition an override changes.
    pub moved: BTreeSet<(String, String)>,
    /// Pools with their own objectives.
    pub promised: Vec<PoolObjectives>,
    /// The objectives, if this is the library of such pools.
    pub slo: Option<Slo>,
    /// The kinds of pools.
    pub kinds: PoolKinds,
    /// True if this is the library of pools of a kind that moves limits.
    pub(super) is_of_kinds: bool,
    /// The libraries for pools of each kind.
    pub(super) of_kind: KindLibraries,
    /// Signal to the metrics that its queries read, of all engines; computed once.
    pub(super) metrics: OnceLock<BTreeMap<String, BTreeSet<String>>>,
}

/// The kind of a node in the cause graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    /// A playbook that alerts enter.
    Symptom,
    /// A playbook between symptom and leaf.
    Mechanism,
    /// The end of a chain.
    Leaf,
}

/// The children of a node; a leaf has none.
pub type Children<'a> = &'a [CauseEntry];

/// One node of the cause graph: a playbook, a shared leaf, or a leaf written inside a playbook.
#[derive(Debug, Clone, Copy)]
pub struct Node<'a> {
    /// The stable id.
    pub id: &'a str,
    /// The kind.
    pub kind: NodeKind,
    /// The title, a clause.
    pub title: &'a str,
    /// The explanation.
    pub meaning: &'a str,
    /// The evidence for it.
    pub evidence: &'a [Evidence],
    /// Its possible causes.
    pub causes: Children<'a>,
    /// Immediate fixes.
    pub now: &'a [Step],
    /// Permanent fixes.
    pub lasting: &'a [Step],
    /// The team to escalate to.
    pub escalate: Option<&'a str>,
}

impl Library {
    /// Returns the user's file that joins the shipped one at `path`.
    pub fn joined(&self, path: &str) -> Option<&SourceFile> {
        self.files.get(&format!("{path}{JOINED}"))
    }

    /// Returns the file at `path`, or the user's file that joins or changes it if that names `word`.
    pub fn file_naming(&self, path: &str, word: &str) -> Option<&SourceFile> {
        let overrides = self.overridden.get(path).into_iter().flatten().filter_map(|path| self.files.get(path));
        let mut own = self.joined(path).into_iter().chain(overrides);
        own.find(|file| file.line_with(word).is_some()).or_else(|| self.files.get(path))
    }

    /// Returns all ids of the data, which are ordinary words, not names of the site.
    pub fn ids(&self) -> impl Iterator<Item = &String> {
        let leaves =
            self.playbooks.values().flat_map(|playbook| &playbook.causes).filter_map(|cause| cause.id.as_ref());
        self.playbooks
            .keys()
            .chain(self.causes.keys())
            .chain(self.signals.keys())
            .chain(self.engines.keys())
            .chain(leaves)
    }

    /// Returns the user's file that changes a playbook, cause or leaf with this id.
    pub fn changed_by(&self, id: &str) -> Option<&SourceFile> {
        let name = format!("overrides/{id}.yaml");
        self.overridden.values().flatten().find(|path| **path == name).and_then(|path| self.files.get(path))
    }

    /// Returns the id of a playbook, a cause or a leaf that is meant by an unknown one, or the most similar ones.
    pub fn similar_ids(&self, id: &str) -> String {
        let leaves =
            self.playbooks.values().flat_map(|playbook| &playbook.causes).filter_map(|entry| entry.id.as_ref());
        let ids: BTreeSet<&str> =
            self.playbooks.keys().chain(self.causes.keys()).chain(leaves).map(String::as_str).collect();
        suggestion(id, ids.iter().copied()).unwrap_or_else(|| {
            let near: Vec<String> = nearest(id, ids).into_iter().take(5).map(|id| format!("`{id}`")).collect();
            format!("the most similar ones are {}; `llm-diagnose playbooks` lists the playbooks", near.join(", "))
        })
    }

    /// Inserts a site's own labels before those of the engines' files.
    ///
    /// # Errors
    /// If there is no such engine, or a label cannot be used.
    pub fn put_first(&mut self, own: &BTreeMap<String, OwnLabels>) -> Result<(), String> {
        for (name, labels) in own {
            let Some(engine) = self.engines.get_mut(name) else {
                let engines: Vec<&str> = self.engines.keys().map(String::as_str).collect();
                return Err(format!("`engines.{name}:` no such engine: expected one of {}", engines.join(", ")));
            };
            engine.put_first(labels).map_err(|error| format!("`engines.{name}:` {error}"))?;
        }
        Ok(())
    }

    /// Returns true if the last link of a chain is a fallback, considered only without a better cause.
    pub fn ends_in_fallback(&self, chain: &[String]) -> bool {
        let [.., before, last] = chain else { return false };
        let entries = self.playbooks.get(before).map(|playbook| playbook.causes.as_slice()).unwrap_or_default();
        entries.iter().any(|entry| entry.fallback && entry.target() == last)
    }

    /// Returns a playbook by its id.
    pub fn playbook(&self, id: &str) -> Option<&Playbook> {
        self.playbooks.get(id)
    }

    /// Returns the id of the playbook with this id.
    ///
    /// # Errors
    /// When there is no such playbook, with the id that is most like it.
    pub fn playbook_id(&self, id: &str) -> Result<&str, String> {
        let known = self.playbooks.get_key_value(id).map(|(id, _)| id.as_str());
        known.ok_or_else(|| {
            let hint = suggestion(id, self.playbooks.keys().map(String::as_str)).unwrap_or_default();
            format!("there is no playbook `{id}` {hint}").trim_end().to_owned()
        })
    }

    /// Returns the node of a playbook, by its id.
    pub fn playbook_node(&self, id: &str) -> Option<Node<'_>> {
        let p = self.playbook(id)?;
        Some(Node {
            id: &p.playbook,
            kind: match p.kind {
                PlaybookKind::Symptom => NodeKind::Symptom,
                PlaybookKind::Mechanism => NodeKind::Mechanism,
            },
            title: &p.title,
            meaning: &p.meaning,
            evidence: &p.symptom,
            causes: &p.causes,
            now: &p.now,
            lasting: &p.lasting,
            escalate: p.escalate.as_deref(),
        })
    }

    /// Returns a playbook, a shared cause or a leaf inside a playbook by its id, with the path of its file.
    pub fn node_by_id<'a>(&'a self, id: &str) -> Option<(Node<'a>, String)> {
        if let Some(node) = self.playbook_node(id) {
            return Some((node, format!("{}.yaml", node.id)));
        }
        let mut entries = self.playbooks.values().flat_map(|p| p.causes.iter().map(move |entry| (p, entry)));
        let (playbook, entry) = entries.find(|(_, entry)| entry.playbook.is_none() && entry.target() == id)?;
        let path = match &entry.cause {
            Some(cause) => format!("causes/{cause}.yaml"),
            None => format!("{}.yaml", playbook.playbook),
        };
        Some((self.node(entry)?, path))
    }

    /// Returns the node of an entry under `causes:`; `None` if it refers to unknown data.
    pub fn node<'a>(&'a self, entry: &'a CauseEntry) -> Option<Node<'a>> {
        if let Some(id) = &entry.playbook {
            return self.playbook_node(id);
        }
        if let Some(id) = &entry.cause {
            let c = self.causes.get(id)?;
            return Some(Node {
                id: &c.cause,
                kind: NodeKind::Leaf,
                title: &c.title,
                meaning: &c.meaning,
                evidence: &c.evidence,
                causes: &[],
                now: &c.now,
                lasting: &c.lasting,
                escalate: c.escalate.as_deref(),
            });
        }
        Some(Node {
            id: entry.id.as_deref()?,
            kind: NodeKind::Leaf,
            title: entry.title.as_deref().unwrap_or_default(),
            meaning: entry.meaning.as_deref().unwrap_or_default(),
            evidence: &entry.evidence,
            causes: &[],
            now: &entry.now,
            lasting: &entry.lasting,
            escalate: None,
        })
    }

    /// Returns every node that can be reached from a playbook, the playbook first, without duplicates.
    pub fn reachable<'a>(&'a self, playbook: &str) -> Vec<Node<'a>> {
        self.reachable_by(playbook, |_| true)
    }

    /// As [`Self::reachable`], along paths on which `open` accepts the id of every node.
    pub fn reachable_by<'a>(&'a self, playbook: &str, open: impl Fn(&str) -> bool) -> Vec<Node<'a>> {
        let mut visited = BTreeSet::new();
        let mut out = Vec::new();
        let mut queue: Vec<Node<'a>> = self.playbook_node(playbook).into_iter().collect();
        while let Some(node) = queue.pop() {
            if open(node.id) && visited.insert(node.id) {
                queue.extend(node.causes.iter().rev().filter_map(|entry| self.node(entry)));
                out.push(node);
            }
        }
        out
    }

    /// Returns the playbooks of a kind, by id.
    pub fn of_kind(&self, kind: PlaybookKind) -> impl Iterator<Item = &Playbook> {
        self.playbooks.values().filter(move |p| p.kind == kind)
    }
}
