//! Reference tables: what a code, an Xid or a line of a log means, as data beside the playbooks.
//!
//! A diagnosis does not need them; a person who reads a log or an error body does. They are read by `explain`, and are
//! pages beside the runbooks.

use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SCHEMA;
use crate::signal::EngineVersion;

/// The tables that are known, one file each: `playbooks/tables/<name>.yaml`.
#[derive(Debug, Clone, Default)]
pub struct Tables {
    /// `litellm-codes`: what an HTTP status at LiteLLM really means.
    pub litellm_codes: Table<CodeRow>,
    /// `xid`: what NVIDIA wants done for an Xid.
    pub xid: Table<XidRow>,
    /// `memory-flags`: the flag that says how much memory an engine takes; which way it must go say the lines of logs.
    pub memory_flags: Table<FlagRow>,
    /// `engine-flags`: the flags, variables and settings that steps name, with their defaults.
    pub engine_flags: Table<EngineFlag>,
}

/// What a table is about, whatever its rows are.
#[derive(Debug, Clone, Copy)]
pub struct Heading<'a> {
    /// The file's name without its ending.
    pub name: &'a str,
    /// A few words.
    pub title: &'a str,
    /// How to read it.
    pub meaning: &'a str,
    /// Ids of the playbooks whose pages lead to it.
    pub playbooks: &'a [String],
    /// Where its facts were read.
    pub references: &'a [String],
}

/// The shape of a table's file.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Table<R> {
    /// Same as the file name.
    pub table: String,
    /// The format's version: 1.
    pub schema: u32,
    /// A few words: `Xid errors of NVIDIA GPUs`.
    pub title: String,
    /// How to read it.
    pub meaning: String,
    /// Ids of the playbooks whose pages lead to it.
    #[serde(default)]
    pub playbooks: Vec<String>,
    /// Where its facts were read.
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
    /// What it is about.
    pub fn heading(&self) -> Heading<'_> {
        Heading {
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
    /// For which engine and versions: `litellm >= 1.104`.
    pub engine: String,
    /// What happened.
    pub situation: String,
    /// What it really means, where that differs from the status' own meaning, and how to tell.
    pub means: String,
    /// What to do.
    #[serde(rename = "do")]
    pub action: String,
    /// The playbook to open.
    pub playbook: Option<String>,
    /// Where it was read.
    pub source: String,
}

/// How the signals count an Xid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum XidCounts {
    /// `gpu_xid_critical`: somebody must act on the GPU, its links or its node.
    Critical,
    /// `gpu_xid_application`: mostly the workload's.
    Application,
    /// Neither: nothing to do, or a companion of another.
    Neither,
}

/// One Xid, or a range of them with one answer.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct XidRow {
    /// The number.
    pub xid: u32,
    /// The last number of a range; only this one when not set.
    pub to: Option<u32>,
    /// What it is.
    pub title: String,
    /// NVIDIA's bucket for the immediate action.
    pub immediate: String,
    /// NVIDIA's bucket for the investigation afterwards; none when it names none.
    pub investigate: Option<String>,
    /// Whether it is mostly the workload's doing.
    #[serde(default)]
    pub workload: bool,
    /// How the signals count it.
    pub counts: XidCounts,
    /// What to do.
    #[serde(rename = "do")]
    pub action: String,
    /// What is read wrong about it, or why it counts so.
    pub note: Option<String>,
    /// Where it was read.
    pub source: String,
}

impl XidRow {
    /// The numbers that the row stands for.
    pub fn codes(&self) -> RangeInclusive<u32> {
        self.xid..=self.to.unwrap_or(self.xid)
    }

    /// The number or range as it is written.
    pub fn shown(&self) -> String {
        self.to.map_or_else(|| self.xid.to_string(), |to| format!("{}–{to}", self.xid))
    }
}

/// Which way a flag must go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Up.
    Raise,
    /// Down.
    Lower,
    /// It is not the flag.
    Neither,
}

impl Direction {
    /// One word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Raise => "raise",
            Self::Lower => "lower",
            Self::Neither => "leave",
        }
    }
}

/// The flag that says how much of a GPU an engine takes; the lines of its log that are about it say so themselves
/// ([`super::LogFile::memory`]).
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlagRow {
    /// The engine, as its file in `logs/` is called.
    pub engine: String,
    /// The flag.
    pub flag: String,
    /// Where it was read.
    pub source: String,
}

/// A flag, an environment variable or a setting of an engine or a gateway.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EngineFlag {
    /// The engine, as its file in `signals/` is called.
    pub engine: String,
    /// The name as it is written: `--max-num-seqs`, `VLLM_CACHE_ROOT`.
    pub flag: String,
    /// The first version that has it; older than all versions that matter when not set.
    #[schemars(with = "Option<String>")]
    pub since: Option<EngineVersion>,
    /// The first version that refuses or ignores it, where old guides still name it.
    #[schemars(with = "Option<String>")]
    pub gone: Option<EngineVersion>,
    /// What to use then.
    pub instead: Option<String>,
    /// What holds where nobody sets it, by version and GPU.
    pub default: Option<String>,
    /// What is read wrong about it.
    pub note: Option<String>,
    /// Where it was read.
    pub source: String,
}

impl EngineFlag {
    /// That it is gone, and what to use then.
    pub fn end(&self) -> Option<String> {
        let instead = self.instead.as_deref().unwrap_or("nothing");
        self.gone.as_ref().map(|gone| format!("gone in {gone}, instead {instead}"))
    }
}

impl Tables {
    /// The headings of all that are loaded.
    pub fn headings(&self) -> impl Iterator<Item = Heading<'_>> {
        let flags = [self.memory_flags.heading(), self.engine_flags.heading()];
        let all = [self.litellm_codes.heading(), self.xid.heading()].into_iter().chain(flags);
        all.filter(|heading| !heading.name.is_empty())
    }

    /// The headings of the tables that a playbook's page leads to.
    pub fn used_by<'a>(&'a self, playbook: &'a str) -> impl Iterator<Item = Heading<'a>> {
        let opened = self.litellm_codes.rows.iter().any(|row| row.playbook.as_deref() == Some(playbook));
        self.headings().filter(move |heading| {
            heading.playbooks.iter().any(|id| id == playbook) || (opened && heading.name == self.litellm_codes.table)
        })
    }

    /// The rows of a status at LiteLLM.
    pub fn code(&self, code: u16) -> Vec<&CodeRow> {
        self.litellm_codes.rows.iter().filter(|row| row.code == code).collect()
    }

    /// The row of an Xid.
    pub fn xid(&self, xid: u32) -> Option<&XidRow> {
        self.xid.rows.iter().find(|row| row.codes().contains(&xid))
    }

    /// What is known of a flag of an engine.
    pub fn engine_flag(&self, engine: &str, flag: &str) -> Option<&EngineFlag> {
        self.engine_flags.rows.iter().find(|row| row.engine == engine && row.flag == flag)
    }

    /// The memory flag of an engine.
    pub fn memory_flag(&self, engine: &str) -> Option<&str> {
        self.memory_flags.rows.iter().find(|row| row.engine == engine).map(|row| row.flag.as_str())
    }
}
