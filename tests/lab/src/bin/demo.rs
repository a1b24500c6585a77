//! `make demo`: breaks a simulated fleet and shows what llm-diagnose says about it. `demo --help` tells more.

use std::process::ExitCode;
use std::time::Duration;

use llm_diagnose_lab::demo::{self, Ended, Options};

/// For what is still in the runtime's threads when all is over.
const LAST_SECONDS: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    let options = match Options::read(std::env::args().skip(1), |name| std::env::var(name).ok()) {
        Ok(options) if options.help => {
            println!("{}", demo::help());
            return ExitCode::SUCCESS;
        }
        Ok(options) => options,
        Err(error) => {
            eprintln!("demo: {}\n{error}", error.root_cause());
            return ExitCode::from(2);
        }
    };
    let place = match demo::place() {
        Ok(place) => place,
        Err(error) => {
            eprintln!("demo: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("demo: no runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let ended = runtime.block_on(demo::run(&options, &place));
    runtime.shutdown_timeout(LAST_SECONDS);
    match ended {
        Ok(Ended::Passed) => ExitCode::SUCCESS,
        Ok(Ended::Failed) => ExitCode::FAILURE,
        Ok(Ended::Interrupted) => {
            eprintln!("interrupted; all that was started is stopped and deleted");
            ExitCode::from(130)
        }
        Err(error) => {
            eprintln!("demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}
