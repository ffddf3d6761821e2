//! Compares the declarations of `src/ffi.rs` with RocksDB's own header, by its compiler.
//!
//! Each becomes a C type, and a static assertion says that the header's function has it:
//!
//!   pub fn rocksdb_free(ptr: *mut libc::c_void);
//!   SAME(rocksdb_free, void (*)(void *));

use std::{env, fmt::Write, fs, path::Path};

/// Stops the build when a declaration differs from the header.
pub(crate) fn compare(sources: &Path) {
    let rust = fs::read_to_string(super::manifest_dir().join("src/ffi.rs"))
        .expect("the declarations are there");
    let file = Path::new(&env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("declared.c");
    fs::write(&file, assertions(&rust)).expect("the build's own folder can be written");
    let mut build = cc::Build::new();
    build
        .include(sources.join("rocksdb/include"))
        .file(&file)
        .cargo_metadata(false)
        .warnings(false);
    build
        .try_compile("declared")
        .unwrap_or_else(|e| panic!("src/ffi.rs is not what rocksdb/c.h declares: {e}"));
}

fn assertions(rust: &str) -> String {
    let mut out = String::from(
        "#include \"rocksdb/c.h\"\n\
         #define SAME(f, type) _Static_assert(__builtin_types_compatible_p(__typeof__(&f), type), #f)\n",
    );
    for constant in rust.split("pub const ").skip(1) {
        let (name, rest) = constant.split_once(':').expect("a constant has a type");
        let value = rest.split(['=', ';']).nth(1).expect("a constant has a value").trim();
        writeln!(out, "_Static_assert({name} == {value}, \"{name}\");").expect("a string takes it");
    }
    for function in rust.split("pub fn ").skip(1) {
        let declaration = function.split(';').next().expect("a declaration ends");
        let (name, rest) = declaration.split_once('(').expect("a function has parameters");
        let (parameters, result) = rest.rsplit_once(')').expect("parameters end");
        let parameters: Vec<String> = parameters
            .split(',')
            .filter_map(|parameter| parameter.split_once(':'))
            .map(|(_, kind)| c_type(kind.trim()))
            .collect();
        let parameters =
            if parameters.is_empty() { "void".to_owned() } else { parameters.join(", ") };
        let result =
            result.trim().strip_prefix("->").map_or("void".to_owned(), |kind| c_type(kind.trim()));
        writeln!(out, "SAME({name}, {result} (*)({parameters}));").expect("a string takes it");
    }
    out
}

/// What a type of the declarations is in C.
fn c_type(rust: &str) -> String {
    if let Some(inner) = rust.strip_prefix("*const ") {
        return format!("{} const *", c_type(inner));
    }
    if let Some(inner) = rust.strip_prefix("*mut ") {
        return format!("{} *", c_type(inner));
    }
    match rust.strip_prefix("libc::").unwrap_or(rust) {
        "c_char" => "char",
        "c_int" => "int",
        "c_uint" => "unsigned int",
        "c_uchar" => "unsigned char",
        "c_void" => "void",
        "usize" => "size_t",
        "u8" => "uint8_t",
        "u32" => "uint32_t",
        "i32" => "int32_t",
        "u64" => "uint64_t",
        "i64" => "int64_t",
        "f64" => "double",
        "bool" => "_Bool",
        other => other,
    }
    .to_owned()
}
