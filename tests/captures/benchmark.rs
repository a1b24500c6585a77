//! The open benchmark: any tool is asked about the captures by its adapter, and graded; docs/benchmark.md.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use futures::stream::{self, StreamExt};
use llm_diagnose_lab::benchmark::{Graded, Names, Question, Tool, table};
use llm_diagnose_lab::page::put_part;
use serde::Deserialize;

use crate::kit;
use crate::run::{self, Case, Histories};

/// How many questions are asked at once.
const AT_ONCE: usize = 2;
/// How long a tool may think about one case.
const DEADLINE: Duration = Duration::from_secs(30);
/// The tools of a run that names none.
const TOOLS: [&str; 2] = ["llm-diagnose", "alert-name"];

/// What a run is asked for.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// Tools: the names of adapters, or addresses.
    pub(crate) tools: Vec<String>,
    /// Where adapters are, instead of this project's directory.
    pub(crate) adapters: Option<PathBuf>,
    /// Leave the Prometheus up until Ctrl-C, and ask nobody.
    pub(crate) serve: bool,
    /// Only captures with this in their id, with every answer.
    pub(crate) only: Option<String>,
    /// Write the table into this page.
    pub(crate) write: Option<PathBuf>,
}

/// The file `<name>.yaml` of an adapter.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Adapter {
    /// What is installed from PyPI, with its version; the command's `python` is then of its own environment.
    #[serde(default)]
    package: Option<String>,
    /// The program and its arguments, run in the adapters' directory.
    #[serde(default)]
    command: Vec<String>,
    /// An address, instead of a command.
    #[serde(default)]
    url: Option<String>,
    /// The tool's own names of causes, and what each may mean.
    #[serde(default)]
    names: Names,
}

fn target() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/benchmark")
}

/// The tool and its names for causes; an address is a tool without an adapter.
fn tool(name: &str, directory: &Path) -> anyhow::Result<(Tool, Names)> {
    if name.starts_with("http://") || name.starts_with("https://") {
        return Ok((Tool::Http(name.to_owned()), Names::new()));
    }
    let path = directory.join(format!("{name}.yaml"));
    let text = std::fs::read_to_string(&path).with_context(|| format!("no adapter {}", path.display()))?;
    let adapter: Adapter = serde_saphyr::from_str(&text).with_context(|| format!("in {}", path.display()))?;
    if let Some(url) = adapter.url {
        return Ok((Tool::Http(url), adapter.names));
    }
    let mut argv = adapter.command;
    let own = target().join(name).join("bin");
    if let Some(program) = argv.first_mut().filter(|program| *program == "python") {
        *program = match &adapter.package {
            Some(_) => own.join("python").display().to_string(),
            None => "python3".to_owned(),
        };
    }
    let environment = vec![
        ("LLM_DIAGNOSE".to_owned(), env!("CARGO_BIN_EXE_llm-diagnose").to_owned()),
        ("TOOL_BIN".to_owned(), own.display().to_string()),
        ("PYTHONDONTWRITEBYTECODE".to_owned(), "1".to_owned()),
    ];
    Ok((Tool::Command { argv, directory: directory.to_owned(), environment }, adapter.names))
}

/// Runs the benchmark and prints its tables; returns whether every tool could be asked.
pub(crate) async fn run(wanted: &Wanted) -> anyhow::Result<bool> {
    let directory = wanted.adapters.clone().unwrap_or_else(|| run::directory().join("adapters"));
    let directory = std::path::absolute(directory)?;
    let default = || TOOLS.map(str::to_owned).to_vec();
    let names = if wanted.tools.is_empty() { default() } else { wanted.tools.clone() };
    let tools = names.iter().map(|name| Ok((name.clone(), tool(name, &directory)?)));
    let tools = tools.collect::<anyhow::Result<Vec<_>>>()?;
    let cases = run::cases(&run::directory())?;
    let mut part = String::new();
    let mut answered = true;
    for histories in [Histories::Alone, Histories::Together] {
        let cases: Vec<Case> = cases.iter().map(|case| case.among(histories)).collect();
        let kits = target().join(match histories {
            Histories::Together => "pooled",
            _ => "alone",
        });
        let started = Instant::now();
        let server = run::serve(&cases, histories, None).await?;
        if wanted.serve {
            kit::index(&cases, &kits)?;
        }
        let mut questions: Vec<Question> = Vec::new();
        for (number, case) in cases.iter().enumerate() {
            questions.push(kit::question(case, histories, number, &kits, &server.url).await?);
        }
        eprintln!("{histories:?}: {} cases after {:.0} s", cases.len(), started.elapsed().as_secs_f64());
        if wanted.serve {
            println!("{histories:?}: {} with the files of {}; Ctrl-C ends it", server.url, kits.display());
            tokio::signal::ctrl_c().await?;
            continue;
        }
        let only = |case: &Case| wanted.only.as_ref().is_none_or(|only| case.id.contains(only.as_str()));
        let asked: Vec<(&Case, &Question)> = cases.iter().zip(&questions).filter(|(case, _)| only(case)).collect();
        let mut rows = Vec::new();
        for (name, (tool, names)) in &tools {
            let started = Instant::now();
            let graded = graded(tool, names, &asked, wanted.only.is_some()).await;
            eprintln!("{histories:?}: {name} answered in {:.0} s", started.elapsed().as_secs_f64());
            answered &= graded.iter().any(|answer| !answer.is_failed);
            rows.push((name.clone(), graded));
        }
        let title = match histories {
            Histories::Together => "All captures at one time, each in its namespace",
            _ => "Each capture alone",
        };
        part.push_str(&format!("### {title}\n\n{}\n", table(&rows)));
    }
    println!("{part}");
    if let Some(page) = &wanted.write {
        put_part(page, "scores", &part)?;
    }
    Ok(answered)
}

/// Asks a tool about each case, and prints the reasons of missing answers.
async fn graded(tool: &Tool, names: &Names, asked: &[(&Case, &Question)], is_shown: bool) -> Vec<Graded> {
    let answers = asked.iter().map(|(case, question)| async move { (case, tool.ask(question, DEADLINE).await) });
    let answers: Vec<_> = stream::iter(answers.collect::<Vec<_>>()).buffered(AT_ONCE).collect().await;
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (case, answer) in &answers {
        match answer {
            Err(reason) => reasons.entry(reason).or_default().push(&case.id),
            Ok(answer) if is_shown => println!("{}: expected {:?}, {answer:?}", case.id, case.right),
            Ok(_) => {}
        }
    }
    for (reason, cases) in reasons {
        println!("no answer to {}: {reason}", cases.join(", "));
    }
    let graded =
        answers.iter().map(|(case, answer)| Graded::new(case.engine(), &case.right, names, answer.as_ref().ok()));
    graded.collect()
}
