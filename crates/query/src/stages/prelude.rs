//! Imports that every stage file uses.

pub(super) use std::slice;

pub(super) use bumpalo::Bump;
pub(super) use nagi_bson::{Doc, DocBuf, DocWriter, Value};
pub(super) use nagi_error::{Code, Result, bail, err};

pub(super) use super::{How, PipelineCx, Place, RunsOn, Stage, StageFacts, StageSpec, Step};
pub(super) use crate::source::{Cx, Source, renew};
