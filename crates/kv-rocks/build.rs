//! Compiles the C++ files of `native/` against the headers of the linked RocksDB.
//!
//! RocksDB's C interface has no compressed cache tier and no custom file systems. The headers are in the sources
//! that `nagi-rocksdb-sys` compiles; its build script exports their path to dependents.

use std::{env, fs, path::Path};

const FILES: &[&str] = &[
    "batch.cc",
    "cache.cc",
    "cursor.cc",
    "damage.cc",
    "governor.cc",
    "memtable.cc",
    "merge.cc",
    "read_back.cc",
    "ring_buffer.cc",
    "table.cc",
    "trim.cc",
];

fn main() {
    let include = env::var("DEP_ROCKSDB_INCLUDE")
        .expect("nagi-rocksdb-sys tells its dependents where the headers are");
    let target = env::var("TARGET").unwrap_or_default();
    let mut build = cc::Build::new();
    build
        .cpp(true)
        .std("c++20")
        .include(include)
        // The same definitions as for RocksDB itself: classes must have the same layout on both sides.
        .define("NDEBUG", None)
        .define("HAVE_ALIGNED_NEW", None)
        .define("ROCKSDB_PLATFORM_POSIX", None)
        .define("ROCKSDB_LIB_IO_POSIX", None)
        .define("HAVE_UINT128_EXTENSION", None)
        .flag_if_supported("-Wno-unused-parameter")
        .flag("-include")
        .flag("cstdint")
        // Optimized also in debug builds, because every read passes through it.
        .opt_level(2);
    if target.contains("linux") {
        build.define("OS_LINUX", None);
    } else if target.contains("darwin") {
        build.define("OS_MACOSX", None);
    }
    // One unit, because nearly all of the time is spent on RocksDB's headers.
    let folder = env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let mut unit = String::new();
    println!("cargo:rerun-if-changed=native/handles.h");
    for file in FILES {
        let path = Path::new(&folder).join("native").join(file);
        println!("cargo:rerun-if-changed={}", path.display());
        unit.push_str(&format!("#include \"{}\"\n", path.display()));
    }
    let out = Path::new(&env::var("OUT_DIR").expect("cargo sets OUT_DIR")).join("native.cc");
    fs::write(&out, unit).expect("cargo's folder can be written");
    build.file(out).compile("nagi_rocks_native");
}
