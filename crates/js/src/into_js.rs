//! Converts BSON to JavaScript. Documents become objects, int32 and double become numbers, other types become types of
//! the prelude.

use nagi_bson::{Array, Doc, Value};
use rquickjs::object::Property;
use rquickjs::{Ctx, IntoJs, Object, Result, Value as Js};

use crate::host::{Host, Shared};
use crate::kinds;
use crate::text;

/// Converts the values of one call.
pub(crate) struct IntoScript<'c, 'js> {
    pub(crate) ctx: &'c Ctx<'js>,
    pub(crate) host: &'c Host<'js>,
    pub(crate) shared: &'c Shared,
}

/// The address of an argument, and the start of its copy in `Originals`.
#[derive(Clone, Copy)]
struct Root {
    address: usize,
    at: usize,
}

impl<'js> IntoScript<'_, 'js> {
    /// Converts a value. Documents in it keep a reference to their originals.
    pub(crate) fn value(&self, value: Value<'_>) -> Result<Js<'js>> {
        let bytes = match value {
            Value::Doc(doc) => doc.as_bytes(),
            Value::Array(array) => array.as_bytes(),
            other => return self.scalar(other),
        };
        let at = self.shared.originals.borrow_mut().hold(Doc::trusted(bytes));
        self.inner(value, Root { address: bytes.as_ptr() as usize, at })
    }

    fn inner(&self, value: Value<'_>, root: Root) -> Result<Js<'js>> {
        match value {
            Value::Doc(doc) => Ok(self.doc(doc, root)?.into_value()),
            Value::Array(array) => self.array(array, root),
            other => self.scalar(other),
        }
    }

    fn doc(&self, doc: Doc<'_>, root: Root) -> Result<Object<'js>> {
        let object = Object::new(self.ctx.clone())?;
        for element in doc {
            let value = self.inner(element.value(), root)?;
            match element.name() {
                // Plain assignment to it would change the object's prototype.
                "__proto__" => object.prop(
                    "__proto__",
                    Property::from(value).configurable().enumerable().writable(),
                )?,
                name => object.set(name, value)?,
            }
        }
        let at = root.at + (doc.as_bytes().as_ptr() as usize - root.address);
        let number = self.shared.originals.borrow_mut().number(at, doc.len());
        object.set(self.host.origin.clone(), number)?;
        Ok(object)
    }

    fn array(&self, array: Array<'_>, root: Root) -> Result<Js<'js>> {
        let out = rquickjs::Array::new(self.ctx.clone())?;
        for (at, item) in array.iter().enumerate() {
            out.set(at, self.inner(item, root)?)?;
        }
        Ok(out.into_value())
    }

    fn scalar(&self, value: Value<'_>) -> Result<Js<'js>> {
        let ctx = self.ctx;
        match value {
            Value::Missing | Value::Undefined => Ok(Js::new_undefined(ctx.clone())),
            Value::Null => Ok(Js::new_null(ctx.clone())),
            Value::Bool(b) => Ok(Js::new_bool(ctx.clone(), b)),
            Value::Int32(n) => Ok(Js::new_int(ctx.clone(), n)),
            Value::Double(n) => Ok(Js::new_float(ctx.clone(), n)),
            Value::String(text) | Value::Symbol(text) => text.into_js(ctx),
            Value::Int64(n) => self.make(kinds::LONG, Js::new_big_int(ctx.clone(), n)?, ()),
            Value::Decimal128(n) => self.make(kinds::DECIMAL, n.to_string(), ()),
            Value::ObjectId(id) => self.make(kinds::OBJECT_ID, text::hex(id), ()),
            Value::Timestamp(stamp) => {
                let (seconds, increment) = ((stamp >> 32) as u32, stamp as u32);
                self.make(kinds::TIMESTAMP, f64::from(seconds), f64::from(increment))
            }
            Value::Binary(binary) => {
                let bytes = binary.bytes;
                self.make(kinds::BINARY, i32::from(binary.subtype), text::hex(bytes))
            }
            Value::MinKey => self.make(kinds::MIN_KEY, (), ()),
            Value::MaxKey => self.make(kinds::MAX_KEY, (), ()),
            Value::DbPointer(pointer) => {
                self.make(kinds::DB_POINTER, pointer.namespace(), text::hex(pointer.id()))
            }
            Value::Code(code) => self.make(kinds::CODE, code, ()),
            Value::CodeWithScope(code) => {
                let scope = self.value(Value::Doc(code.scope()))?;
                self.make(kinds::CODE, code.code(), scope)
            }
            Value::DateTime(ms) => self.make(kinds::DATE, ms as f64, ()),
            Value::Regex(regex) => {
                let flags: String =
                    regex.options().chars().filter(|flag| "gims".contains(*flag)).collect();
                self.make(kinds::REGEX, regex.pattern(), flags)
            }
            // Unreachable through `inner`, which needs their addresses.
            Value::Doc(_) | Value::Array(_) => self.value(value),
        }
    }

    fn make(&self, kind: i32, a: impl IntoJs<'js>, b: impl IntoJs<'js>) -> Result<Js<'js>> {
        self.host.make.call((kind, a, b))
    }
}
