//! The reference tables agree with what else the data says, and what is wrong in a user's own is said with its place.

use std::collections::BTreeSet;
use std::fs;

use authoring::check::lint;
use authoring::explain::explain;
use knowledge::playbook::{Direction, LogLineMatch, XidCounts, load, match_log_line};

use crate::harness::library;

/// The Xids that the table counts so.
fn counted(so: XidCounts) -> BTreeSet<u32> {
    let rows = library().tables.xid.rows.iter().filter(|row| row.counts == so);
    rows.flat_map(|row| row.codes()).collect()
}

/// The numbers in a query's matcher `xid=~"13|31"`.
fn matched(query: &str) -> BTreeSet<u32> {
    let after = query.split("xid=~\"").nth(1).unwrap_or_else(|| panic!("no `xid=~` in {query}"));
    after.split('"').next().unwrap().split('|').map(|code| code.parse().unwrap()).collect()
}

/// The numbers that a query compares samples with: `== 13`, `>= 31 <= 32`.
fn compared(query: &str) -> BTreeSet<u32> {
    let words: Vec<&str> = query.split_whitespace().collect();
    let number = |at: usize| words[at].trim_end_matches(')').parse::<u32>().unwrap();
    let mut out = BTreeSet::new();
    for (i, word) in words.iter().enumerate() {
        match *word {
            "==" => out.extend([number(i + 1)]),
            ">=" if words.get(i + 2) == Some(&"<=") => out.extend(number(i + 1)..=number(i + 3)),
            _ => {}
        }
    }
    out
}

#[test]
fn every_exporter_counts_the_xids_that_the_table_calls_critical_or_the_workloads() {
    let signals = [("gpu_xid_critical", XidCounts::Critical), ("gpu_xid_application", XidCounts::Application)];
    let mut asked = Vec::new();
    for engine in library().engines.values() {
        for (signal, so) in signals {
            let Some(query) = engine.signals.get(signal).and_then(|entry| entry.query.as_ref()) else { continue };
            assert_eq!(matched(query), counted(so), "{} {signal}", engine.engine);
            if query.contains("DCGM_FI_DEV_XID_ERROR") {
                // The gauge keeps the last Xid alone, and 154 follows each one after which the driver wants a reset or a
                // reboot: there it stands for the Xid that it hides.
                let companions = if so == XidCounts::Critical { vec![154] } else { Vec::new() };
                let gauge: BTreeSet<u32> = counted(so).into_iter().chain(companions).collect();
                assert_eq!(compared(query), gauge, "{} {signal}, the gauge", engine.engine);
            }
            asked.push((engine.engine.as_str(), signal));
        }
    }
    assert!(asked.len() >= 4, "{asked:?}");
}

#[test]
fn the_kernels_log_names_each_xid_as_the_table_counts_it() {
    let rows = &library().tables.xid.rows;
    let all: Vec<u32> = rows.iter().flat_map(|row| row.codes()).collect();
    assert_eq!(all, (1..=172).collect::<Vec<u32>>(), "every number of the catalog, in order");
    for row in rows {
        for code in row.codes() {
            let line = format!("NVRM: Xid (PCI:0000:3b:00): {code}, pid=1");
            let found: Vec<&str> = match_log_line(library().logs.values(), &line)
                .iter()
                .filter_map(|known| Some(known.finding()?.1.id.as_str()))
                .collect();
            let expected: &[&str] = match row.counts {
                XidCounts::Critical => &["xid-critical"],
                XidCounts::Application => &["xid-application"],
                // NVIDIA does not know them on newer GPUs, so nothing is said of them.
                XidCounts::Neither if row.title == "not used on Ampere and newer" => &[],
                XidCounts::Neither => &["xid-informational"],
            };
            assert_eq!(found, expected, "{code}");
        }
    }
}

/// Engine and direction of what is known of a line.
fn told(line: &str) -> Vec<(&'static str, Option<Direction>)> {
    let of = |known: LogLineMatch<'static>| match known {
        LogLineMatch::Finding(file, finding) => (file.logs.as_str(), finding.direction),
        LogLineMatch::Numbers(file, numbers) => (file.logs.as_str(), numbers.direction),
    };
    match_log_line(library().logs.values(), line).into_iter().map(of).collect()
}

#[test]
fn a_memory_line_as_an_engine_writes_it_tells_the_direction() {
    use Direction::{Lower, Neither, Raise};
    let cases = [
        (
            "(EngineCore pid=20) ERROR ValueError: No available memory for the cache blocks. Try increasing",
            "vllm",
            Raise,
        ),
        ("ValueError: To serve at least one request with the model's max seq len (131072), (16.00 GiB", "vllm", Raise),
        ("ValueError: To serve at least one request with the models's max seq len (8192), (4 GB", "vllm", Raise),
        (
            "The model's max seq len (32768) is larger than the maximum number of tokens that can be stored in KV cache (2)",
            "vllm",
            Raise,
        ),
        (
            "ValueError: Free memory on device cuda:0 (12.3/79.1 GiB) on startup is less than desired GPU memory utilization (0.92, 72.8 GiB)",
            "vllm",
            Lower,
        ),
        ("CUDA out of memory occurred when warming up sampler with 1024 dummy requests.", "vllm", Lower),
        ("Failed to load model - not enough GPU memory. Try lowering --gpu-memory-utilization", "vllm", Neither),
        ("ERROR 11-20 [vllm/v1/x.py] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate", "vllm", Lower),
        (
            "CUDA graph memory profiling is enabled (default since v0.21.0). The current --gpu-memory-utilization=0.9 is equivalent to",
            "vllm",
            Raise,
        ),
        ("INFO [kv_cache_utils.py:634] GPU KV cache size: 43,296 tokens", "vllm", Neither),
        ("User-specified max_model_len (65536) is greater than the derived max_model_len (x=32768)", "vllm", Neither),
        ("Sequence group 1 is preempted because there is not enough KV cache space.", "vllm", Raise),
        ("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current", "sglang", Raise),
        ("KV cache pool is full. Retract requests. #retracted_reqs: 3, #new_token_ratio: 0.5", "sglang", Raise),
        ("Decode out of memory happened. #retracted_reqs: 4, #new_tokens: 9", "sglang", Raise),
        ("KV pool holds 20000 tokens, fewer than --context-length 32768.", "sglang", Raise),
        ("Prefill out of memory. Try to lower your batch size.", "sglang", Raise),
        ("Decode out of memory. Try to lower your batch size.", "sglang", Raise),
        ("[2026-11-20 03:00:00 TP0] max_total_num_tokens=163840, chunked_prefill_size=8192", "sglang", Neither),
        ("Out of memory even after retracting all other requests in the decode batch.", "sglang", Raise),
        ("alloc_req_slots runs out of memory. Please set a smaller number", "sglang", Neither),
        ("Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 2.00 GiB", "sglang", Lower),
        ("sglang: CUDA out of memory", "sglang", Lower),
    ];
    for (line, engine, direction) in cases {
        assert_eq!(told(line), [(engine, Some(direction))], "{line}");
    }
    assert_eq!(told("INFO: Started server process [1]"), []);
    let killed = told("Worker proc VllmWorker-1 died unexpectedly (exit code: -9), shutting down executor.");
    assert_eq!(killed, [("vllm", None)], "signal 9 alone says nothing of memory");
    let shared = told("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB");
    assert_eq!(shared, [("sglang", Some(Lower)), ("vllm", Some(Lower))], "both write it; the line does not tell which");
}

#[test]
fn every_real_line_that_data_holds_is_explained_as_its_own_meaning() {
    for file in library().logs.values() {
        for finding in &file.findings {
            for example in &finding.examples {
                let said = explain(library(), "log", Some(example)).unwrap();
                assert!(said.contains(&finding.title) && said.contains(&finding.meaning), "{example}: {said}");
            }
        }
        for numbers in file.statistics.iter().chain(&file.startup) {
            for example in &numbers.examples {
                let said = explain(library(), "log", Some(&example.line)).unwrap();
                let titles = numbers.values.iter().filter(|(name, _)| example.values.contains_key(*name));
                titles.for_each(|(_, value)| assert!(said.contains(&value.title), "{}: {said}", example.line));
            }
        }
    }
}

#[test]
fn a_kernel_s_line_means_what_the_table_of_xids_says() {
    let host = &library().logs["host"];
    let of = |id: &str| -> BTreeSet<u32> {
        let finding = host.findings.iter().find(|finding| finding.id == id).unwrap();
        let number = |line: &String| line.trim_end_matches(',').rsplit(' ').next().unwrap().parse().unwrap();
        finding.lines.iter().map(number).collect()
    };
    assert_eq!(of("xid-critical"), counted(XidCounts::Critical));
    assert_eq!(of("xid-application"), counted(XidCounts::Application));
    // Of numbers that no GPU of today writes nothing is said.
    let unused = library().tables.xid.rows.iter().filter(|row| row.title == "not used on Ampere and newer");
    let unused: BTreeSet<u32> = unused.flat_map(|row| row.codes()).collect();
    assert_eq!(of("xid-informational"), &counted(XidCounts::Neither) - &unused);
}

/// What is found when this stands in a user's own `tables/xid.yaml` or another table.
fn found(name: &str, text: &str) -> String {
    let own = tempfile::tempdir().unwrap();
    fs::create_dir(own.path().join("tables")).unwrap();
    fs::write(own.path().join("tables").join(name), text).unwrap();
    let all = load(Some(own.path())).map_or_else(|problems| problems, |library| lint(&library));
    let directory = own.path().display().to_string();
    let mine = all.iter().filter(|problem| problem.file.starts_with(&directory));
    mine.map(|problem| problem.to_string().replace(&directory, "own")).collect::<Vec<_>>().join("\n")
}

const XID: &str = "table: xid
schema: 1
title: Xids
meaning: They are.
playbooks: [gpu-hardware-fault]
references: [https://example.com]
rows:
  - { xid: 79, title: gone, immediate: RESTART_BM, counts: critical, do: Reboot it, source: https://example.com }
";

#[test]
fn what_is_wrong_in_a_table_is_said_with_its_place_and_a_way_out() {
    assert_eq!(found("xid.yaml", XID), "");
    let wrong = |from: &str, to: &str| found("xid.yaml", &XID.replace(from, to));
    let row = XID.lines().last().unwrap();
    let cases = [
        (wrong("RESTART_BM", "RESTART_BMC"), "`RESTART_BMC` is no bucket of NVIDIA's catalog (table/bucket)"),
        (wrong("RESTART_BM", "RESTART_BMC"), "did you mean `RESTART_BM`?"),
        (wrong("gpu-hardware-fault", "gpu-hardware-fautl"), "did you mean `gpu-hardware-fault`?"),
        (wrong(row, &format!("{row}\n{row}")), "Xid 79 is empty or listed twice (table/twice)"),
        (
            wrong("counts: critical", "workload: true, counts: critical"),
            "cannot be the workload's and count as critical",
        ),
        (wrong("source: https", "source: http"), "`http://example.com` is no https address (table/source)"),
        (wrong("table: xid", "table: xids"), "`table: xids` must equal the file name `xid` (yaml/id)"),
        (wrong("immediate:", "imediate:"), "did you mean `immediate`?"),
        (found("other.yaml", XID), "known tables in `tables/`"),
    ];
    for (said, expected) in cases {
        assert!(said.contains(expected), "{expected}: {said}");
        assert!(said.starts_with("own/tables/"), "{said}");
    }
}
