//! The simulated fleet by hand.
//!
//! - `simulate table [replicas] [seconds]` prints what each fault does to it.
//! - `simulate day [replicas]` runs and records 25 hours of it and tells how long that took.
//! - `simulate serve [address] [replicas]` serves it on the wall clock and prints the `scrape_configs` for it.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};
use llm_diagnose_lab::sim::figures::{Figures, measure};
use llm_diagnose_lab::sim::{Fault, Fleet, FleetSpec, History, live};

const START: f64 = 1_780_000_000.0;
const WARM_UP_SECONDS: f64 = 180.0;

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] | ["table"] => table(4, 300.0),
        ["table", replicas] => table(replicas.parse()?, 300.0),
        ["table", replicas, seconds] => table(replicas.parse()?, seconds.parse()?),
        ["day"] => day(4),
        ["day", replicas] => day(replicas.parse()?),
        ["serve"] => serve("127.0.0.1:9100", 4).await,
        ["serve", address] => serve(address, 4).await,
        ["serve", address, replicas] => serve(address, replicas.parse()?).await,
        _ => bail!("expected `table [replicas] [seconds]`, `day [replicas]` or `serve [address] [replicas]`"),
    }
}

#[expect(clippy::disallowed_methods, reason = "the start of a live fleet is the present")]
async fn serve(address: &str, replicas: usize) -> Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64();
    let fleet = Fleet::new(FleetSpec::sized(replicas), 1, now - WARM_UP_SECONDS)?;
    let listener = tokio::net::TcpListener::bind(address).await?;
    let address = listener.local_addr()?.to_string();
    println!("{:#}", serde_json::json!({ "scrape_configs": live::scrape_configs(&fleet.targets(), &address, "5s") }));
    live::serve(fleet, listener).await?;
    Ok(())
}

/// A diagnosis' day: dense around the same time yesterday and at the end, sparse in between.
fn day(replicas: usize) -> Result<()> {
    let end = START + 25.0 * 3_600.0;
    let mut fleet = Fleet::new(FleetSpec::sized(replicas), 1, START)?;
    let begun = Instant::now();
    fleet.advance_to(end);
    println!("{replicas} replicas, 25 h: simulated in {:.2} s", begun.elapsed().as_secs_f64());
    let mut fleet = Fleet::new(FleetSpec::sized(replicas), 1, START)?;
    let dense = [(end - 90_000.0, end - 86_400.0 + 600.0), (end - 7_200.0, end)];
    let mut history = History::new(15.0).sparse(120.0, &dense).spread();
    let begun = Instant::now();
    history.record(&mut fleet, end);
    let recorded = begun.elapsed().as_secs_f64();
    let mut text = Vec::new();
    history.write(&mut text)?;
    println!(
        "with {} samples recorded in {recorded:.2} s, written in {:.2} s as {:.0} MB",
        history.samples(),
        begun.elapsed().as_secs_f64() - recorded,
        text.len() as f64 / 1e6,
    );
    Ok(())
}

fn table(replicas: usize, seconds: f64) -> Result<()> {
    println!(
        "{:<22} {:>6} {:>6} {:>6} {:>6} {:>6} {:>9} {:>11} {:>11} {:>6} {:>5} {:>6} {:>6} {:>6} {:>5} {:>5} {:>5} {:>5} {:>5} {:>5} {:>5}",
        "fault",
        "ttft99",
        "ttft50",
        "itl99",
        "itl",
        "prefil",
        "kv",
        "waiting",
        "running",
        "preem",
        "sent",
        "gen/s",
        "comp/s",
        "prompt",
        "out",
        "hit",
        "len",
        "err",
        "abrt",
        "clock",
        "util",
    );
    let mut healthy = Fleet::new(FleetSpec::sized(replicas), 1, START)?;
    healthy.advance_to(START + WARM_UP_SECONDS);
    row("healthy", &measure(&mut healthy, seconds).0);
    for fault in Fault::ALL {
        let mut fleet = Fleet::new(FleetSpec::for_fault(&fault, replicas), 1, START)?;
        fleet.advance_to(START + WARM_UP_SECONDS);
        row("healthy", &measure(&mut fleet, 60.0).0);
        fleet.inject(fault)?;
        row(fault.name(), &measure(&mut fleet, 60.0).0);
        let (pool, each) = measure(&mut fleet, seconds - 60.0);
        row("  after 1 min", &pool);
        if let Some(replica) = fault.replica() {
            row(&format!("  replica {replica}"), &each[replica]);
            row("  a peer", &each[(replica + 1) % each.len()]);
        }
        fleet.clear(fault);
        measure(&mut fleet, 60.0);
        row("  cleared 1-2 min", &measure(&mut fleet, 60.0).0);
    }
    Ok(())
}

fn row(name: &str, f: &Figures) {
    println!(
        "{name:<22} {:>6.2} {:>6.2} {:>6.3} {:>6.3} {:>6.2} {:>4.2}/{:<4.2} {:>5.1}/{:<5.0} {:>5.1}/{:<5.0} {:>6.2} {:>5.2} {:>6.0} {:>6.0} {:>6.0} {:>5.0} {:>5.2} {:>5.2} {:>5.2} {:>5.2} {:>5.0} {:>5.2}",
        f.ttft_p99,
        f.ttft_p50,
        f.itl_p99,
        f.itl_mean,
        f.prefill_mean,
        f.kv_mean,
        f.kv_max,
        f.waiting_mean,
        f.waiting_max,
        f.running_mean,
        f.running_max,
        f.preemptions,
        f.sent,
        f.generated,
        f.computed_prompt_tokens,
        f.prompt_tokens,
        f.output_tokens,
        f.hit_ratio,
        f.length_share,
        f.error_share,
        f.aborted,
        f.clock_mhz,
        f.gpu_util,
    );
}
