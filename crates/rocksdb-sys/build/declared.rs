//! Compares the declarations of `src/ffi.rs` with RocksDB's own header, using the C compiler.
//!
//! Each declaration is converted to a C type, and a static assertion checks that the header's function has this
//! type. `tests/it/main.rs` includes this module, too.
//!
//!   pub fn rocksdb_free(ptr: *mut libc::c_void);
//!   SAME(rocksdb_free, void (*)(void *));

use std::{
    fmt::Write,
    fs,
    path::Path,
    process::{Command, Stdio},
};

/// The names whose types differ from the header in `include`; or the compiler's message if it fails for another
/// reason. The compiled file is written to `folder`.
pub(crate) fn differences(
    rust: &str,
    include: &Path,
    folder: &Path,
) -> Result<Vec<String>, String> {
    let file = folder.join("declared.c");
    fs::write(&file, assertions(rust)).map_err(|e| format!("{}: {e}", file.display()))?;
    let output = Command::new("cc")
        .args(["-fsyntax-only", "-fno-diagnostics-color", "-fno-diagnostics-show-caret", "-I"])
        .args([include, &file])
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("cc: {e}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let names: Vec<String> = text
        .lines()
        .filter(|line| line.contains("error:") && line.contains("assert"))
        .filter_map(|line| line.split('"').nth(1).map(str::to_owned))
        .collect();
    if output.status.success() || !names.is_empty() { Ok(names) } else { Err(text.into_owned()) }
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

/// Converts a type of the declarations to C.
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
