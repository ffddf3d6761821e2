//! Compiles the few C++ files of `native/` against the headers of the RocksDB that is linked.
//!
//! RocksDB's C interface has no compressed tier of the cache and no file system of one's own. The
//! headers lie in the sources that `nagi-rocksdb-sys` compiles, which tells its dependents where.

use std::{env, fs, path::Path};

const FILES: &[&str] =
    &["cache.cc", "damage.cc", "governor.cc", "read_back.cc", "spool.cc", "table.cc", "trim.cc"];

fn main() {
    let include = env::var("DEP_ROCKSDB_INCLUDE")
        .expect("nagi-rocksdb-sys tells its dependents where the headers are");
    let target = env::var("TARGET").unwrap_or_default();
    let mut build = cc::Build::new();
    build
        .cpp(true)
        .std("c++20")
        .include(include)
        // As RocksDB itself was compiled: classes must have the same layout on both sides.
        .define("NDEBUG", None)
        .define("HAVE_ALIGNED_NEW", None)
        .define("ROCKSDB_PLATFORM_POSIX", None)
        .define("ROCKSDB_LIB_IO_POSIX", None)
        .define("HAVE_UINT128_EXTENSION", None)
        .flag_if_supported("-Wno-unused-parameter")
        .flag("-include")
        .flag("cstdint")
        // Also in debug builds: every read goes through it.
        .opt_level(2);
    if target.contains("linux") {
        build.define("OS_LINUX", None);
    } else if target.contains("darwin") {
        build.define("OS_MACOSX", None);
    }
    // One unit: nearly all of the time goes to RocksDB's headers.
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
