//! Finds libnanolith through pkg-config, unless it is opened at run time.

use std::env;
use std::process::{exit, Command};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    // Documentation needs no library either.
    if env::var_os("CARGO_FEATURE_DLOPEN").is_some() || env::var_os("DOCS_RS").is_some() {
        return;
    }
    match link_flags() {
        Ok(flags) => print_flags(&flags),
        Err(problem) => {
            eprintln!("libnanolith was not found: {}", problem);
            eprintln!(
                "Install it, or name the folder of its nanolith.pc in PKG_CONFIG_PATH, or use the feature `dlopen`."
            );
            exit(1);
        }
    }
}

fn link_flags() -> Result<String, String> {
    let program = env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".to_string());
    let output = Command::new(&program)
        .args(["--libs", "nanolith >= 0.2", "nanolith < 0.3"])
        .output()
        .map_err(|error| format!("{}: {}", program, error))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_string())
    }
}

fn print_flags(flags: &str) {
    for flag in flags.split_whitespace() {
        if let Some(folder) = flag.strip_prefix("-L") {
            println!("cargo:rustc-link-search=native={}", folder);
        } else if let Some(library) = flag.strip_prefix("-l") {
            println!("cargo:rustc-link-lib={}", library);
        }
    }
}
