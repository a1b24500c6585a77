//! The `llm-diagnose` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    // One TLS provider for every client; without it each of them panics at its first connection.
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        anstream::eprintln!("error: another TLS provider was installed first");
        return ExitCode::FAILURE;
    }
    llm_diagnose::cli::main()
}
