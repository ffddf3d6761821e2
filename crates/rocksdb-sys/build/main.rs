//! Compiles RocksDB once and links it.
//!
//! The sources are those of the crate `librocksdb-sys`, which `third_party/rocksdb` pins by checksum. That crate's
//! own build requires libclang and takes a quarter of an hour, so only its sources are used. They are compiled as a
//! few large units (`units.rs`) in parallel with the Rust crates, with tokens of cargo's job server. The archive is
//! kept in `NAGI_CACHE` (`~/.cache/nagi`) under a hash of everything it was built from. So a change of a profile, a
//! feature or a lock file does not compile RocksDB again.
#![allow(clippy::print_stdout, reason = "cargo reads the output of a build script")]

mod declared;
mod units;

use std::{
    env, fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    process::Command,
};

const ARCHIVE: &str = "librocksdb.a";

fn main() {
    for file in ["build", "native", "src/ffi.rs", "../../third_party/rocksdb/Cargo.lock"] {
        println!("cargo:rerun-if-changed={file}");
    }
    for name in ["NAGI_CACHE", "ROCKSDB_SOURCES", "CXX"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    let sources = sources();
    compare(&sources);
    let flags = units::Flags::of_target();
    let archive = kept(&sources, &flags);
    println!("cargo:rustc-link-search=native={}", archive.display());
    println!("cargo:rustc-link-lib=static=rocksdb");
    println!("cargo:rustc-link-lib=dylib=stdc++");
    let include = sources.join("rocksdb/include");
    println!("cargo:include={}", include.display());
    // For C++ that includes the internal headers.
    let folders = units::include_folders(&sources);
    let folders = env::join_paths(folders).expect("no folder has a separator in its name");
    println!("cargo:folders={}", folders.display());
    let definitions = flags.definitions().into_iter();
    let definitions = definitions
        .map(|(name, value)| value.map_or(name.to_owned(), |value| format!("{name}={value}")));
    println!("cargo:definitions={}", definitions.collect::<Vec<_>>().join(" "));
    println!("cargo:rustc-env=ROCKSDB_INCLUDE={}", include.display());
}

/// Stops the build when a declaration differs from the header.
fn compare(sources: &Path) {
    let rust =
        fs::read_to_string(manifest_dir().join("src/ffi.rs")).expect("the declarations are there");
    let folder = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    let include = sources.join("rocksdb/include");
    let names = declared::differences(&rust, &include, Path::new(&folder));
    let names = names.unwrap_or_else(|text| panic!("src/ffi.rs: {text}"));
    assert!(names.is_empty(), "src/ffi.rs is not what rocksdb/c.h declares: {names:?}");
}

/// The folder of `librocksdb-sys`'s sources: `ROCKSDB_SOURCES`, or the folder into which cargo unpacks the pinned
/// version.
fn sources() -> PathBuf {
    if let Some(folder) = env::var_os("ROCKSDB_SOURCES") {
        return folder.into();
    }
    let found = unpacked(&manifest_dir().join("../../third_party/rocksdb/Cargo.toml"));
    found("librocksdb-sys")
}

/// The headers of the compressors. Their crates would export the paths as well, but only after their build scripts.
fn codecs() -> Vec<PathBuf> {
    let found = unpacked(&manifest_dir().join("../../Cargo.toml"));
    let headers = [("zstd-sys", "zstd/lib"), ("lz4-sys", "liblz4/lib"), ("libz-sys", "src/zlib")];
    headers.into_iter().map(|(package, folder)| found(package).join(folder)).collect()
}

/// Finds the folders into which cargo has unpacked the packages that a manifest and its lock file need.
fn unpacked(manifest: &Path) -> impl Fn(&str) -> PathBuf + use<> {
    let cargo = env::var_os("CARGO").expect("cargo sets CARGO for build scripts");
    let output = Command::new(cargo)
        .args(["metadata", "--locked", "--format-version", "1", "--filter-platform"])
        .arg(env::var_os("TARGET").expect("cargo sets TARGET"))
        .arg("--manifest-path")
        .arg(manifest)
        .output()
        .expect("cargo runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    move |package| {
        let begin = format!("/{package}-");
        let mut words = text.split('"');
        let found = words.find(|word| word.contains(&begin) && word.ends_with("/Cargo.toml"));
        let found = found.unwrap_or_else(|| panic!("cargo metadata: no {package}: {errors}"));
        Path::new(found).parent().expect("a manifest lies in a folder").to_owned()
    }
}

fn manifest_dir() -> PathBuf {
    env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR").into()
}

/// The folder that contains the archive; compiles it if it is missing. Several builds may call this at once.
fn kept(sources: &Path, flags: &units::Flags) -> PathBuf {
    let folder = cache().join(format!("rocksdb-{:016x}", key(sources, flags)));
    if folder.join(ARCHIVE).exists() {
        return folder;
    }
    fs::create_dir_all(cache()).expect("the cache's folder can be made");
    let lock = fs::File::create(folder.with_extension("lock")).expect("a lock file can be made");
    lock.lock().expect("a lock file can be locked");
    if !folder.join(ARCHIVE).exists() {
        let part = folder.with_extension("part");
        let _ = fs::remove_dir_all(&part);
        fs::create_dir_all(&part).expect("the cache's folder can be written");
        units::compile(sources, flags, &part);
        let done = folder.with_extension("done");
        let _ = fs::remove_dir_all(&done);
        fs::create_dir_all(&done).expect("the cache's folder can be written");
        fs::rename(part.join(ARCHIVE), done.join(ARCHIVE)).expect("the compiler made an archive");
        fs::rename(&done, &folder).expect("a folder can be renamed");
        let _ = fs::remove_dir_all(&part);
    }
    folder
}

fn cache() -> PathBuf {
    env::var_os("NAGI_CACHE")
        .map(PathBuf::from)
        .or_else(|| env::var_os("HOME").map(|home| Path::new(&home).join(".cache/nagi")))
        .unwrap_or_else(|| env::var_os("OUT_DIR").expect("cargo sets OUT_DIR").into())
}

/// The inputs of the archive: version of the sources, flags, compiler, this crate's own C++.
fn key(sources: &Path, flags: &units::Flags) -> u64 {
    let mut hash = DefaultHasher::new();
    sources.file_name().hash(&mut hash);
    flags.hash(&mut hash);
    let compiler = cc::Build::new().cpp(true).get_compiler();
    let version = Command::new(compiler.path()).arg("--version").output();
    version.map(|output| output.stdout).unwrap_or_default().hash(&mut hash);
    let native = units::native_files().into_iter().map(|(file, _)| file);
    for file in [manifest_dir().join("build/units.rs")].into_iter().chain(native) {
        fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display())).hash(&mut hash);
    }
    hash.finish()
}
