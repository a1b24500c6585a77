//! Reference tables: the meaning of codes, Xids and flags, as data beside the playbooks.
//!
//! A diagnosis does not need them, but a person who reads a log or an error body does. `explain` prints them, and they
//! become pages beside the runbooks.

use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SCHEMA;
use crate::signal::EngineVersion;

/// All tables, one file each: `playbooks/tables/<name>.yaml`.
#[derive(Debug, Clone, Default)]
pub struct Tables {
    /// `litellm-codes`: the real meaning of an HTTP status at LiteLLM.
    pub litellm_codes: Table<CodeRow>,
    /// `xid`: NVIDIA's recommended action for an Xid.
    pub xid: Table<XidRow>,
    /// `memory-flags`: the flag for an engine's share of GPU memory; lines of logs decide the direction of the change.
    pub memory_flags: Table<FlagRow>,
    /// `engine-flags`: the flags, variables and settings that fix steps mention, with their defaults.
    pub engine_flags: Table<EngineFlag>,
    /// `incident-studies`: the incidents that published studies count, and the causes that name them.
    pub incident_studies: Table<IncidentClass>,
}

/// The heading of a table, independent of its rows.
#[derive(Debug, Clone, Copy)]
pub struct TableHeading<'a> {
    /// The file's name without its extension.
    pub name: &'a str,
    /// The title in a few words.
    pub title: &'a str,
    /// An explanation of how to read it.
    pub meaning: &'a str,
    /// Ids of the playbooks whose pages link to it.
    pub playbooks: &'a [String],
    /// Sources of its facts.
    pub references: &'a [String],
}

/// The shape of a table's file.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "{R}Table")]
pub struct Table<R> {
    /// Same as the file name.
    pub table: String,
    /// The format's version: 1.
    pub schema: u32,
    /// The title in a few words: `Xid errors of NVIDIA GPUs`.
    pub title: String,
    /// An explanation of how to read it.
    pub meaning: String,
    /// Ids of the playbooks whose pages link to it.
    #[serde(default)]
    pub playbooks: Vec<String>,
    /// Sources of its facts.
    pub references: Vec<String>,
    /// Its rows.
    pub rows: Vec<R>,
}

impl<R> Default for Table<R> {
    fn default() -> Self {
        let none = String::new();
        Self {
            table: none.clone(),
            schema: SCHEMA,
            title: none.clone(),
            meaning: none,
            playbooks: vec![],
            references: vec![],
            rows: vec![],
        }
    }
}

impl<R> Table<R> {
    /// Returns the heading.
    pub fn heading(&self) -> TableHeading<'_> {
        TableHeading {
            name: &self.table,
            title: &self.title,
            meaning: &self.meaning,
            playbooks: &self.playbooks,
            references: &self.references,
        }
    }
}

/// One situation that ends in an HTTP status at a gateway.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CodeRow {
    /// The HTTP status.
    pub code: u16,
    /// The class of the exception, as in the error body and the metrics' labels.
    pub class: String,
    /// The engine and versions: `litellm >= 1.104`.
    pub engine: String,
    /// The situation that causes it.
    pub situation: String,
    /// The real meaning, if it differs from the status' own meaning, and how to recognise it.
    pub means: String,
    /// The recommended action.
    #[serde(rename = "do")]
    pub action: String,
    /// The playbook to open.
    pub playbook: Option<String>,
    /// The source of this fact.
    pub source: String,
}

/// The signal that counts an Xid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum XidCounts {
    /// `gpu_xid_critical`: the GPU, its links or its node need an action.
    Critical,
    /// `gpu_xid_application`: mostly caused by the workload.
    Application,
    /// Neither: no action needed, or a companion of another Xid.
    Neither,
}

/// One Xid, or a range of Xids with the same action.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct XidRow {
    /// The number.
    pub xid: u32,
    /// The last number of a range; only this number if unset.
    pub to: Option<u32>,
    /// The title.
    pub title: String,
    /// NVIDIA's bucket for the immediate action.
    pub immediate: String,
    /// NVIDIA's bucket for the investigation afterwards; unset if NVIDIA has none.
    pub investigate: Option<String>,
    /// True if the workload is usually the cause.
    #[serde(default)]
    pub workload: bool,
    /// The signal that counts it.
    pub counts: XidCounts,
    /// The recommended action.
    #[serde(rename = "do")]
    pub action: String,
    /// A common misreading, or the reason why it counts so.
    pub note: Option<String>,
    /// The source of this fact.
    pub source: String,
}

impl XidRow {
    /// Returns the numbers of the row.
    pub fn codes(&self) -> RangeInclusive<u32> {
        self.xid..=self.to.unwrap_or(self.xid)
    }

    /// Formats the number or range.
    pub fn shown(&self) -> String {
        self.to.map_or_else(|| self.xid.to_string(), |to| format!("{}–{to}", self.xid))
    }
}

/// The direction in which a flag must be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Increase the value.
    Raise,
    /// Decrease the value.
    Lower,
    /// The flag is not the cause.
    Neither,
}

impl Direction {
    /// Returns the direction as one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Raise => "raise",
            Self::Lower => "lower",
            Self::Neither => "leave",
        }
    }
}

/// The flag that sets the share of GPU memory that an engine takes; the lines of its log about memory contain the
/// direction of the change (`memory` of the log's file).
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlagRow {
    /// The engine, by the name of its file in `logs/`.
    pub engine: String,
    /// The flag.
    pub flag: String,
    /// The source of this fact.
    pub source: String,
}

/// A flag, an environment variable or a setting of an engine or a gateway.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EngineFlag {
    /// The engine, by the name of its file in `signals/`.
    pub engine: String,
    /// The name as it is written: `--max-num-seqs`, `VLLM_CACHE_ROOT`.
    pub flag: String,
    /// The first version that has it; unset if all relevant versions have it.
    #[schemars(with = "Option<String>")]
    pub since: Option<EngineVersion>,
    /// The first version that refuses or ignores it; set if old guides still mention it.
    #[schemars(with = "Option<String>")]
    pub gone: Option<EngineVersion>,
    /// The replacement.
    pub instead: Option<String>,
    /// The default, by version and GPU.
    pub default: Option<String>,
    /// A common misreading.
    pub note: Option<String>,
    /// The source of this fact.
    pub source: String,
}

impl EngineFlag {
    /// Describes its removal and the replacement.
    pub fn end(&self) -> Option<String> {
        let instead = self.instead.as_deref().unwrap_or("nothing");
        self.gone.as_ref().map(|gone| format!("gone in {gone}, instead {instead}"))
    }
}

/// A class of incidents of a published study.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IncidentClass {
    /// The study in a few words, equal in all its rows.
    pub study: String,
    /// The class in the study's words.
    pub class: String,
    /// The number of its incidents.
    pub count: u32,
    /// Ids of the playbooks and causes that name it; none if nothing does.
    #[serde(default)]
    pub causes: Vec<String>,
    /// The signals of the causes' checks that show this class; unset if each check of a cause may.
    #[serde(default)]
    pub signals: Vec<String>,
    /// The reason why nothing names it.
    pub note: Option<String>,
    /// The source of its number.
    pub source: String,
}

impl Tables {
    /// Returns the headings of all loaded tables.
    pub fn headings(&self) -> impl Iterator<Item = TableHeading<'_>> {
        let flags = [self.memory_flags.heading(), self.engine_flags.heading()];
        let all = [self.litellm_codes.heading(), self.xid.heading()].into_iter().chain(flags);
        let all = all.chain([self.incident_studies.heading()]);
        all.filter(|heading| !heading.name.is_empty())
    }

    /// Returns the headings of the tables that a playbook's page links to.
    pub fn used_by<'a>(&'a self, playbook: &'a str) -> impl Iterator<Item = TableHeading<'a>> {
        let opened = self.litellm_codes.rows.iter().any(|row| row.playbook.as_deref() == Some(playbook));
        self.headings().filter(move |heading| {
            heading.playbooks.iter().any(|id| id == playbook) || (opened && heading.name == self.litellm_codes.table)
        })
    }

    /// Returns the rows of an HTTP status at LiteLLM.
    pub fn code(&self, code: u16) -> Vec<&CodeRow> {
        self.litellm_codes.rows.iter().filter(|row| row.code == code).collect()
    }

    /// Returns the row of an Xid.
    pub fn xid(&self, xid: u32) -> Option<&XidRow> {
        self.xid.rows.iter().find(|row| row.codes().contains(&xid))
    }

    /// Returns the memory flag of an engine.
    pub fn memory_flag(&self, engine: &str) -> Option<&str> {
        self.memory_flags.rows.iter().find(|row| row.engine == engine).map(|row| row.flag.as_str())
    }
}
