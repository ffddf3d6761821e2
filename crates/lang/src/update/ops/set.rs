//! `$set` and `$setOnInsert`.

use nagi_bson::ValueBuf;

use super::{Change, UpdateOp};
use crate::path::FieldPath;

pub(super) const SET: UpdateOp = UpdateOp {
    name: "$set",
    parse: |update, field, _| {
        let value = ValueBuf::new(field.value());
        update.add(&FieldPath::new(field.name()), Change::Set(value))
    },
};

pub(super) const SET_ON_INSERT: UpdateOp = UpdateOp {
    name: "$setOnInsert",
    parse: |update, field, _| {
        let value = ValueBuf::new(field.value());
        update.add(&FieldPath::new(field.name()), Change::SetOnInsert(value))
    },
};
