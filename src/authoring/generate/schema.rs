//! The JSON schemas of the data files, by kind, from the types that read them.

use schemars::generate::SchemaGenerator;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use crate::check::TestFile;
use knowledge::playbook::IncidentClass;
use knowledge::playbook::{
    Cause, CodeRow, EngineFlag, FlagRow, HealthyFleet, LogFile, Override, Playbook, PoolKinds, QuickLook, Redaction,
    ReportSignals, Table, Ticket, XidRow,
};
use knowledge::signal::{Catalog, Engine, EngineSignals};

/// A kind of data file.
pub struct FileKind {
    /// The name, as in `generate schema --of`.
    pub name: &'static str,
    /// The place in a directory of data.
    pub place: &'static str,
    /// The contents, with an article: `a playbook`.
    pub title: &'static str,
    /// The effect on the shipped data, as a verb.
    pub over: &'static str,
    schema: fn(&mut SchemaGenerator) -> Schema,
}

impl std::fmt::Debug for FileKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

const fn kind<T: JsonSchema>(
    name: &'static str,
    place: &'static str,
    title: &'static str,
    over: &'static str,
) -> FileKind {
    FileKind { name, place, title, over, schema: |generator| generator.subschema_for::<T>() }
}

const REPLACES: &str = "adds, or replaces the one of that name";

/// All kinds of data files; what users write most comes first.
pub const KINDS: &[FileKind] = &[
    kind::<Override>("override", "`overrides/<id>.yaml`", "a change to one playbook or cause", "changes what it names"),
    kind::<Playbook>(
        "playbook",
        "`symptoms/<id>.yaml`, `mechanisms/<id>.yaml`",
        "a playbook",
        "adds, or replaces the one with that id",
    ),
    kind::<TestFile>(
        "test",
        "`<name>.test.yaml` beside playbooks",
        "the verdict tests of a playbook",
        "adds, or replaces that of the same name, whole",
    ),
    kind::<Cause>(
        "cause",
        "`causes/<id>.yaml`",
        "a cause that playbooks share",
        "adds, or replaces the one with that id",
    ),
    kind::<Catalog>("catalog", "`signals/catalog.yaml`", "the signals", "adds and replaces single signals"),
    kind::<EngineSignals>(
        "engine-signals",
        "`signals/<engine>.yaml`",
        "signals of a known engine",
        "adds and replaces single signals of the engine",
    ),
    kind::<Engine>("engine", "`signals/<engine>.yaml` with `kind` and `detect`", "an engine", REPLACES),
    kind::<HealthyFleet>("healthy-fleet", "`healthy-fleet.yaml`", "the values where verdict tests start", "adds parts"),
    kind::<LogFile>("logs", "`logs/<engine>.yaml`", "the lines of an engine's log", REPLACES),
    kind::<Ticket>("ticket", "`tickets/<id>.yaml`", "a receiver's form", REPLACES),
    kind::<QuickLook>("health", "`health.yaml`", "the rows of `health`", "replaces the shipped one"),
    kind::<PoolKinds>("kinds", "`kinds.yaml`", "the kinds of pools", "replaces the shipped one"),
    kind::<ReportSignals>("report", "`report.yaml`", "the signals of a report", "replaces the shipped one"),
    kind::<Redaction>("redaction", "`redaction.yaml`", "the redaction rules", "adds and replaces single rules"),
    kind::<Table<CodeRow>>("codes", "`tables/litellm-codes.yaml`", "a table of codes", REPLACES),
    kind::<Table<XidRow>>("xid", "`tables/xid.yaml`", "the table of Xids", REPLACES),
    kind::<Table<FlagRow>>("memory-flags", "`tables/memory-flags.yaml`", "the flags for memory", REPLACES),
    kind::<Table<EngineFlag>>("engine-flags", "`tables/engine-flags.yaml`", "the engines' flags by version", REPLACES),
    kind::<Table<IncidentClass>>(
        "incident-studies",
        "`tables/incident-studies.yaml`",
        "incidents that studies count",
        REPLACES,
    ),
];

/// Returns the schema of the files of one kind, or of all.
pub fn schema(of: Option<&str>) -> Value {
    let kinds: Vec<&FileKind> = KINDS.iter().filter(|kind| of.is_none_or(|of| of == kind.name)).collect();
    let (refs, definitions) = definitions(&kinds);
    let title = of.map_or_else(|| "llm-diagnose data files".to_owned(), |of| format!("llm-diagnose {of}"));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "anyOf": refs,
        "$defs": definitions,
    })
}

/// Returns a reference to the type of each kind, and the definitions of all types.
pub(super) fn definitions(kinds: &[&FileKind]) -> (Vec<Schema>, Map<String, Value>) {
    let mut generator = SchemaGenerator::default();
    let refs = kinds.iter().map(|kind| (kind.schema)(&mut generator)).collect();
    (refs, generator.take_definitions(true))
}
