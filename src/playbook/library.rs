//! All loaded knowledge, and the one view through which the rest walks it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use super::{
    Cause, CauseEntry, Evidence, Kind, LogFile, Playbook, Promised, QuickLook, Redaction, ReportSignals, Slo,
    SourceFile, Step, Tables, Ticket,
};
use crate::signal::{Engine, OwnLabels, Signal};

/// Everything loaded: signals, engines, playbooks, causes, and the text they came from.
#[derive(Debug, Clone, Default)]
pub struct Library {
    /// Signal name to definition.
    pub signals: BTreeMap<String, Signal>,
    /// Engine name to how it tells the signals.
    pub engines: BTreeMap<String, Engine>,
    /// Id to playbook.
    pub playbooks: BTreeMap<String, Playbook>,
    /// Id to shared leaf cause.
    pub causes: BTreeMap<String, Cause>,
    /// What the quick look at a fleet shows.
    pub health: QuickLook,
    /// Which numbers a report has.
    pub report: ReportSignals,
    /// Engine name to what its log says.
    pub logs: BTreeMap<String, LogFile>,
    /// Id to the form of somebody who takes over.
    pub tickets: BTreeMap<String, Ticket>,
    /// What must not leave.
    pub redaction: Redaction,
    /// Reference tables.
    pub tables: Tables,
    /// Path to text, for errors that show the line.
    pub files: BTreeMap<String, SourceFile>,
    /// Pools with a promise of their own.
    pub promised: Vec<Promised>,
    /// What is promised, where this is the library of such pools.
    pub slo: Option<Slo>,
    /// Signal to the metrics that its queries read, of all engines; read from their texts once.
    pub(super) metrics: OnceLock<BTreeMap<String, BTreeSet<String>>>,
}

/// What a node of the cause graph is.
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
    /// What it is.
    pub kind: NodeKind,
    /// A clause.
    pub title: &'a str,
    /// An explanation.
    pub meaning: &'a str,
    /// When it is true.
    pub evidence: &'a [Evidence],
    /// What may explain it.
    pub causes: Children<'a>,
    /// Fixes for now.
    pub now: &'a [Step],
    /// Fixes that last.
    pub lasting: &'a [Step],
    /// Who takes over.
    pub escalate: Option<&'a str>,
}

impl Library {
    /// Ids of ours, which are words wherever they are nobody's name.
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

    /// Puts a site's own labels before those of the engines' files.
    ///
    /// # Errors
    /// When there is no such engine, or a label cannot be used.
    pub fn put_first(&mut self, own: &BTreeMap<String, OwnLabels>) -> Result<(), String> {
        for (name, labels) in own {
            let Some(engine) = self.engines.get_mut(name) else {
                let known: Vec<&str> = self.engines.keys().map(String::as_str).collect();
                return Err(format!("`engines.{name}:` no such engine: expected one of {}", known.join(", ")));
            };
            engine.put_first(labels).map_err(|error| format!("`engines.{name}:` {error}"))?;
        }
        Ok(())
    }

    /// Whether the last link of a chain is only considered where the node before it has nothing better.
    pub fn ends_in_fallback(&self, chain: &[String]) -> bool {
        let [.., before, last] = chain else { return false };
        let entries = self.playbooks.get(before).map(|playbook| playbook.causes.as_slice()).unwrap_or_default();
        entries.iter().any(|entry| entry.fallback && entry.target() == last)
    }

    /// The node of a playbook.
    pub fn playbook_node(&self, id: &str) -> Option<Node<'_>> {
        let p = self.playbooks.get(id)?;
        Some(Node {
            id: &p.playbook,
            kind: match p.kind {
                Kind::Symptom => NodeKind::Symptom,
                Kind::Mechanism => NodeKind::Mechanism,
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

    /// The node that an entry under `causes:` stands for; none when it refers to nothing loaded.
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

    /// Every node that can be reached from a playbook, itself first, each once.
    pub fn reachable<'a>(&'a self, playbook: &str) -> Vec<Node<'a>> {
        self.reachable_by(playbook, |_| true)
    }

    /// As [`Self::reachable`], by ways on which every node, by its id, is `open`.
    pub fn reachable_by<'a>(&'a self, playbook: &str, open: impl Fn(&str) -> bool) -> Vec<Node<'a>> {
        let mut seen = BTreeSet::new();
        let mut out = Vec::new();
        let mut queue: Vec<Node<'a>> = self.playbook_node(playbook).into_iter().collect();
        while let Some(node) = queue.pop() {
            if open(node.id) && seen.insert(node.id) {
                queue.extend(node.causes.iter().rev().filter_map(|entry| self.node(entry)));
                out.push(node);
            }
        }
        out
    }

    /// The playbooks of a kind, by id.
    pub fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Playbook> {
        self.playbooks.values().filter(move |p| p.kind == kind)
    }
}
