//! The conformance suite, also with layers so small that most of the data is in the file.

use std::{cell::RefCell, sync::Arc};

use nagi_kv::{Engine, conformance};
use nagi_kv_lmdb::{Options, open};

use crate::{Scratch, options};

fn run(options: &Options) {
    // Data directories must outlive the engines that use them.
    let folders = RefCell::new(Vec::new());
    let fresh = || -> Arc<dyn Engine> {
        let folder = Scratch::new();
        let engine = open(folder.path(), options).expect("opens");
        folders.borrow_mut().push(folder);
        engine
    };
    conformance::run(&fresh);
}

#[test]
fn lmdb_keeps_the_contract() {
    run(&options());
}

#[test]
fn lmdb_keeps_the_contract_with_tiny_layers() {
    run(&Options { layer_bytes: 2000, ..options() });
}
