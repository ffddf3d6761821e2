//! Compiles the C++ files of `native/` against the headers of the linked RocksDB.
//!
//! RocksDB's C interface has no compressed cache tier and no custom file systems. The headers are in the sources
//! that `nagi-rocksdb-sys` compiles; its build script exports their path to dependents.

use std::{env, fs, path::Path};

const FILES: &[&str] = &[
    "batch.cc",
    "blocks.cc",
    "cache.cc",
    "census.cc",
    "cursor.cc",
    "damage.cc",
    "encrypted.cc",
    "governor.cc",
    "late_reads.cc",
    "memtable.cc",
    "merge.cc",
    "read_back.cc",
    "ring_buffer.cc",
    "scan.cc",
    "table.cc",
    "trim.cc",
];

fn main() {
    let told = |name: &str| {
        env::var(format!("DEP_ROCKSDB_{name}"))
            .unwrap_or_else(|_| panic!("nagi-rocksdb-sys tells its dependents {name}"))
    };
    let mut build = cc::Build::new();
    build
        .cpp(true)
        .std("c++20")
        .flag_if_supported("-Wno-unused-parameter")
        .flag("-include")
        .flag("cstdint")
        // Optimized also in debug builds, because every read passes through it.
        .opt_level(2);
    for folder in env::split_paths(&told("FOLDERS")) {
        // Without warnings about RocksDB's own headers.
        build.flag("-isystem").flag(folder);
    }
    // Classes must have the same layout on both sides.
    for definition in told("DEFINITIONS").split(' ') {
        match definition.split_once('=') {
            Some((name, value)) => build.define(name, value),
            None => build.define(definition, None),
        };
    }
    // One unit, because nearly all of the time is spent on RocksDB's headers.
    let folder = env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let mut unit = String::new();
    for header in ["encrypted.h", "entry.h", "handles.h"] {
        println!("cargo:rerun-if-changed=native/{header}");
    }
    for file in FILES {
        let path = Path::new(&folder).join("native").join(file);
        println!("cargo:rerun-if-changed={}", path.display());
        unit.push_str(&format!("#include \"{}\"\n", path.display()));
    }
    let out = Path::new(&env::var("OUT_DIR").expect("cargo sets OUT_DIR")).join("native.cc");
    fs::write(&out, unit).expect("cargo's folder can be written");
    build.file(out).compile("nagi_rocks_native");
}
