//! Compiles the few C++ files of `native/` against the headers of the RocksDB that is linked.
//!
//! RocksDB's C interface has no compressed tier of the cache and no file system of one's own. The
//! headers lie in the sources that `nagi-rocksdb-sys` compiles, which tells its dependents where.

use std::{env, path::Path};

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
    for file in
        ["cache.cc", "damage.cc", "governor.cc", "read_back.cc", "spool.cc", "table.cc", "trim.cc"]
    {
        let path = Path::new("native").join(file);
        println!("cargo:rerun-if-changed={}", path.display());
        build.file(path);
    }
    build.compile("nagi_rocks_native");
}
