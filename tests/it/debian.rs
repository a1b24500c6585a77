//! Debian's package, made of the binary under test: complete, and fit to be started with what it brings.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use clap::CommandFactory;
use llm_diagnose::cli::Cli;
use service::config::Config;

use crate::running::BINARY;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}; apt-get install dpkg-dev"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn text(output: Output) -> String {
    String::from_utf8(output.stdout).unwrap()
}

/// Every path below a directory, from there.
fn paths(directory: &Path) -> BTreeSet<PathBuf> {
    let mut waiting = vec![directory.to_owned()];
    let mut found = BTreeSet::new();
    while let Some(next) = waiting.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            found.insert(path.strip_prefix(directory).unwrap().to_owned());
            if path.is_dir() {
                waiting.push(path);
            }
        }
    }
    found
}

/// The commands, each with those that it belongs to: `bundle-open`.
fn commands(command: &clap::Command, name: &str, found: &mut BTreeSet<String>) {
    found.insert(name.to_owned());
    for part in command.get_subcommands().filter(|part| part.get_name() != "help") {
        commands(part, &format!("{name}-{}", part.get_name()), found);
    }
}

#[test]
fn the_package_has_all_that_its_unit_needs_and_what_belongs_beside_a_program() {
    let work = tempfile::tempdir().unwrap();
    let mut build = Command::new("sh");
    let build = build.arg("config/debian/build.sh").arg(BINARY).arg(work.path()).current_dir(root());
    let said = text(run(build.env("COMPRESSION", "none")));
    let package = said.lines().last().unwrap();
    let (tree, control) = (work.path().join("tree"), work.path().join("control"));
    run(Command::new("dpkg-deb").args(["--extract", package]).arg(&tree));
    run(Command::new("dpkg-deb").args(["--control", package]).arg(&control));

    let about = fs::read_to_string(control.join("control")).unwrap();
    let field = |name: &str| about.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).unwrap();
    assert_eq!((field("Package"), field("Version")), ("llm-diagnose", concat!(env!("CARGO_PKG_VERSION"), "-1")));
    assert!(field("Depends").contains("libc6 (>= 2."), "{about}");

    // What somebody changes below /etc stays at an upgrade.
    let files = paths(&tree);
    let in_etc: Vec<String> = files
        .iter()
        .filter(|path| path.starts_with("etc") && tree.join(path).is_file())
        .map(|path| format!("/{}", path.display()))
        .collect();
    let conffiles = fs::read_to_string(control.join("conffiles")).unwrap();
    assert_eq!(conffiles.lines().collect::<Vec<_>>(), in_etc);

    let unit = fs::read_to_string(tree.join("usr/lib/systemd/system/llm-diagnose.service")).unwrap();
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    assert_eq!(start, "/usr/bin/llm-diagnose serve --config /etc/llm-diagnose/llm-diagnose.yaml");
    // A credential whose file is missing keeps it from starting.
    assert!(!unit.lines().any(|line| line.starts_with("LoadCredential=")), "{unit}");
    let config = Config::load(&tree.join("etc/llm-diagnose/llm-diagnose.yaml")).unwrap();
    assert!(config.listen.starts_with("127.0.0.1:") && config.secret_files().is_empty());
    let version = text(run(Command::new(tree.join("usr/bin/llm-diagnose")).arg("--version")));
    assert!(version.starts_with(concat!("llm-diagnose ", env!("CARGO_PKG_VERSION"))), "{version}");

    let mut expected = BTreeSet::new();
    commands(&Cli::command(), "llm-diagnose", &mut expected);
    let pages: BTreeSet<String> = fs::read_dir(tree.join("usr/share/man/man1"))
        .unwrap()
        .map(|page| page.unwrap().file_name().into_string().unwrap().replace(".1.gz", ""))
        .collect();
    assert_eq!(pages, expected);
    for completion in [
        "bash-completion/completions/llm-diagnose",
        "zsh/vendor-completions/_llm-diagnose",
        "fish/vendor_completions.d/llm-diagnose.fish",
    ] {
        assert!(fs::metadata(tree.join("usr/share").join(completion)).unwrap().len() > 1_000, "{completion}");
    }

    let mode = |path: &Path| fs::metadata(tree.join(path)).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(Path::new("etc/llm-diagnose/secrets")), 0o750);
    let odd: Vec<_> = files.iter().filter(|path| mode(path) & 0o6022 != 0).collect();
    assert!(odd.is_empty(), "writable by others, or setuid: {odd:?}");
}
