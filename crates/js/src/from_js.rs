//! Converts JavaScript to BSON. Numbers become doubles, except numbers that still equal the int32 field they came from.
//! Objects of the prelude's types become the corresponding BSON types.

use nagi_bson::{Array, Decimal128, Doc, DocBuf, Regex, Value, ValueBuf, ValueSlot, oid};
use nagi_bson::{ArrayWriter, DocWriter};
use nagi_budget::meter;
use nagi_error::{Code, Error, Result, bail, err};
use rquickjs::atom::PredefinedAtom;
use rquickjs::convert::Coerced;
use rquickjs::{Atom, Object, Value as Js};

use crate::host::{Host, Shared, was_int};
use crate::{kinds, text};

/// The maximum nesting depth; deeper values are usually cycles.
const DEPTH_MAX: usize = 150;
/// The maximum size of a value: 16 MB as for documents, plus MongoDB's allowance for internal use.
const BYTES_MAX: usize = (16 << 20) + (16 << 10);

/// Smaller sizes are not checked against the available memory.
const UNASKED_BYTES: usize = 64 << 10;

/// The number of values between two interrupt checks.
const ASK_EVERY: u32 = 1024;

/// Converts values from a script.
pub(crate) struct FromScript<'c, 'js> {
    pub(crate) host: &'c Host<'js>,
    pub(crate) shared: &'c Shared,
}

/// A failed conversion: an exception of the script (getters run while an object is read), or a limit.
pub(crate) enum Failure {
    Script(rquickjs::Error),
    Limit(Error),
}

impl From<rquickjs::Error> for Failure {
    fn from(error: rquickjs::Error) -> Failure {
        Failure::Script(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Limit(error)
    }
}

type Converted<T = ()> = std::result::Result<T, Failure>;

impl<'js> FromScript<'_, 'js> {
    /// Converts a value to BSON.
    pub(crate) fn value(&self, value: &Js<'js>) -> Converted<ValueBuf> {
        let mut outcome = Ok(());
        let held = DocBuf::build(|out| outcome = self.put(value, out.slot(""), Value::Missing, 0));
        outcome?;
        check_size(held.as_bytes().len())?;
        Ok(ValueBuf::new(held.get("")))
    }

    /// Writes a value; `original` is the value in the same place of the original document.
    fn put(
        &self,
        value: &Js<'js>,
        out: ValueSlot<'_>,
        original: Value<'_>,
        depth: usize,
    ) -> Converted {
        if depth > DEPTH_MAX {
            return Err(too_deep().into());
        }
        let steps = self.shared.steps.replace(self.shared.steps.get().wrapping_add(1));
        if steps.is_multiple_of(ASK_EVERY) && !self.shared.pace.go_on() {
            return Err(rquickjs::Error::Exception.into());
        }
        if value.is_undefined() {
            out.put(Value::Undefined);
        } else if value.is_null() {
            out.put(Value::Null);
        } else if let Some(b) = value.as_bool() {
            out.put(b);
        } else if let Some(number) = value.as_number() {
            match was_int(original, number) {
                Some(int) => out.put(int),
                None => out.put(number),
            }
        } else if let Some(string) = value.as_string() {
            out.put(Value::String(&utf8(string)?));
        } else if let Some(big) = value.as_big_int() {
            match big.clone().to_i64() {
                Ok(n) => out.put(n),
                Err(_) => out.put(value.get::<Coerced<f64>>()?.0),
            }
        } else if let Some(array) = value.as_array() {
            return self.array(array, out, original, depth);
        } else if let Some(object) = value.as_object() {
            return self.object(object, out, depth);
        } else {
            // Symbols have no BSON counterpart.
            out.put(Value::Undefined);
        }
        Ok(())
    }

    fn array(
        &self,
        array: &rquickjs::Array<'js>,
        out: ValueSlot<'_>,
        original: Value<'_>,
        depth: usize,
    ) -> Converted {
        let mut before = original.as_array().unwrap_or(Array::EMPTY).iter();
        // The length may be up to 4,294,967,295. Holes become `undefined`, so the size limit ends the loop.
        let length: f64 = array.as_object().get(PredefinedAtom::Length)?;
        out.array(|out: &mut ArrayWriter<'_>| {
            for at in 0..length as usize {
                check_size(out.len())?;
                let original = before.next().unwrap_or(Value::Missing);
                self.put(&array.get(at)?, out.slot(), original, depth + 1)?;
            }
            Ok(())
        })
    }

    fn object(&self, object: &Object<'js>, out: ValueSlot<'_>, depth: usize) -> Converted {
        let kind: Js<'js> = object.get(self.host.kind.clone())?;
        if let Some(kind) = kind.as_int() {
            return self.kind(kind, object, out, depth);
        }
        if object.is_function() {
            out.put(Value::Code(&object.as_value().get::<Coerced<String>>()?.0));
            return Ok(());
        }
        out.doc(|out: &mut DocWriter<'_>| self.fields(object, out, depth))
    }

    fn fields(&self, object: &Object<'js>, out: &mut DocWriter<'_>, depth: usize) -> Converted {
        let number: Js<'js> = object.get(self.host.origin.clone())?;
        let originals = self.shared.originals.borrow();
        let original = number.as_int().and_then(|n| originals.get(n));
        // Fields usually have the order of the original document.
        let mut next = original.map(|doc| doc.iter());
        for key in object.keys::<Atom<'js>>() {
            let key = key?;
            let name = utf8(&key.to_js_string()?)?;
            if name.contains('\0') {
                bail_name(&name)?;
            }
            check_size(out.len())?;
            let before = match next.as_mut().and_then(Iterator::next) {
                Some(element) if element.name() == name => element.value(),
                _ => original.map_or(Value::Missing, |doc: Doc<'_>| doc.get(&name)),
            };
            let value: Js<'js> = object.get(key)?;
            self.put(&value, out.slot(&name), before, depth + 1)?;
        }
        Ok(())
    }

    fn kind(&self, kind: i32, object: &Object<'js>, out: ValueSlot<'_>, depth: usize) -> Converted {
        let content = || object.get::<_, Js<'js>>(self.host.content.clone());
        let content_text = || -> Converted<String> {
            match content()?.as_string() {
                Some(string) => utf8(string),
                None => Err(malformed().into()),
            }
        };
        match kind {
            kinds::LONG => match content()?.as_big_int() {
                Some(big) => out.put(big.clone().to_i64()?),
                None => return Err(malformed().into()),
            },
            kinds::INT => out.put(content()?.as_number().ok_or_else(malformed)? as i32),
            kinds::DECIMAL => {
                out.put(Value::Decimal128(
                    Decimal128::parse(&content_text()?).ok_or_else(malformed)?,
                ));
            }
            kinds::OBJECT_ID => {
                let id = oid::parse(&content_text()?).ok_or_else(malformed)?;
                out.put(Value::ObjectId(&id));
            }
            kinds::TIMESTAMP => {
                let part = |name: &str| -> Converted<u64> {
                    let number: Js<'js> = object.get(name)?;
                    let number = number.as_number().ok_or_else(malformed)?;
                    Ok(u64::from(number as u32))
                };
                out.put(Value::Timestamp(part("t")? << 32 | part("i")?));
            }
            kinds::BINARY => {
                let (subtype, hex) = pair(&content()?)?;
                let subtype = subtype.as_number().ok_or_else(malformed)? as u8;
                let hex = utf8(hex.as_string().ok_or_else(malformed)?)?;
                let bytes = text::from_hex(&hex).ok_or_else(malformed)?;
                out.put(Value::Binary(nagi_bson::Binary { subtype, bytes: &bytes }));
            }
            kinds::MIN_KEY => out.put(Value::MinKey),
            kinds::MAX_KEY => out.put(Value::MaxKey),
            kinds::DATE => match content()?.as_number() {
                Some(ms) if ms.is_finite() => out.put(Value::DateTime(ms as i64)),
                // An invalid date.
                _ => out.put(Value::DateTime(0)),
            },
            kinds::REGEX => put_regex(&content()?, out)?,
            kinds::DB_POINTER => self.put_pointer(object, out)?,
            kinds::CODE => self.put_code(object, out, depth)?,
            _ => return Err(malformed().into()),
        }
        Ok(())
    }

    fn put_pointer(&self, object: &Object<'js>, out: ValueSlot<'_>) -> Converted {
        let namespace: Coerced<String> = object.get("ns")?;
        let id: Object<'js> = object.get("id")?;
        let hex: Coerced<String> = id.get(self.host.content.clone())?;
        let id = oid::parse(&hex.0).ok_or_else(malformed)?;
        // The element: type, empty name, length of the namespace, namespace, id.
        let mut bytes = vec![0x0C, 0];
        bytes.extend_from_slice(&(namespace.0.len() as i32 + 1).to_le_bytes());
        bytes.extend_from_slice(namespace.0.as_bytes());
        bytes.push(0);
        bytes.extend_from_slice(&id);
        put_raw(&bytes, out)
    }

    fn put_code(&self, object: &Object<'js>, out: ValueSlot<'_>, depth: usize) -> Converted {
        let code: Coerced<String> = object.get("code")?;
        let scope: Js<'js> = object.get("scope")?;
        let Some(scope) = scope.as_object() else {
            out.put(Value::Code(&code.0));
            return Ok(());
        };
        let mut outcome = Ok(());
        let scope = DocBuf::build(|out| outcome = self.fields(scope, out, depth + 1));
        outcome?;
        let inner = 8 + code.0.len() + 1 + scope.as_bytes().len();
        check_size(inner)?;
        let mut bytes = vec![0x0F, 0];
        bytes.extend_from_slice(&(inner as i32).to_le_bytes());
        bytes.extend_from_slice(&(code.0.len() as i32 + 1).to_le_bytes());
        bytes.extend_from_slice(code.0.as_bytes());
        bytes.push(0);
        bytes.extend_from_slice(scope.as_bytes());
        put_raw(&bytes, out)
    }
}

/// Writes the value of one element, which is given as raw bytes with an empty name.
fn put_raw(element: &[u8], out: ValueSlot<'_>) -> Converted {
    let mut bytes = (element.len() as i32 + 5).to_le_bytes().to_vec();
    bytes.extend_from_slice(element);
    bytes.push(0);
    let doc = Doc::parse(&bytes).map_err(|_| malformed())?;
    out.put(doc.get(""));
    Ok(())
}

fn put_regex(content: &Js<'_>, out: ValueSlot<'_>) -> Converted {
    let (source, flags) = pair(content)?;
    let source = utf8(source.as_string().ok_or_else(malformed)?)?;
    let flags = utf8(flags.as_string().ok_or_else(malformed)?)?;
    let mut flags: Vec<u8> = flags.bytes().filter(|flag| b"gims".contains(flag)).collect();
    flags.sort_unstable();
    let mut bytes = source.into_bytes();
    bytes.push(0);
    bytes.extend_from_slice(&flags);
    bytes.push(0);
    out.put(Value::Regex(Regex::from_bytes(&bytes).ok_or_else(malformed)?));
    Ok(())
}

/// The two elements of a content that is an array.
fn pair<'js>(content: &Js<'js>) -> Converted<(Js<'js>, Js<'js>)> {
    let array = content.as_array().ok_or_else(malformed)?;
    Ok((array.get(0)?, array.get(1)?))
}

/// Converts a string; unpaired surrogates, which UTF-8 cannot encode, become U+FFFD.
pub(crate) fn utf8(string: &rquickjs::String<'_>) -> Converted<String> {
    match string.to_string() {
        Ok(text) => Ok(text),
        Err(rquickjs::Error::Utf8(_)) => {
            let prototype: Object<'_> =
                string.ctx().globals().get::<_, Object<'_>>("String")?.get("prototype")?;
            let well: rquickjs::Function<'_> = prototype.get("toWellFormed")?;
            let whole: rquickjs::String<'_> =
                well.call((rquickjs::function::This(string.clone()),))?;
            Ok(whole.to_string()?)
        }
        Err(error) => Err(error.into()),
    }
}

fn check_size(bytes: usize) -> Result<()> {
    // A growing buffer is copied to one of twice its length.
    if bytes > UNASKED_BYTES && !meter::fits(2 * bytes) {
        bail!(
            Code::EXCEEDED_MEMORY_LIMIT,
            "Exceeded memory limit: the server has no memory left for the result of a function"
        );
    }
    if bytes > BYTES_MAX {
        bail!(
            Code::Location(17260),
            "Converting from JavaScript to BSON failed: Object size {bytes} exceeds limit of \
             {BYTES_MAX} bytes."
        );
    }
    Ok(())
}

fn too_deep() -> Error {
    err!(
        Code::Location(17279),
        "Exceeded depth limit of {DEPTH_MAX} when converting js object to BSON. Do you have a cycle?"
    )
}

fn bail_name(name: &str) -> Result<()> {
    bail!(
        Code::Location(16985),
        "JavaScript property (name) contains a null char which is not allowed in BSON. {}",
        name.replace('\0', "\\0")
    );
}

fn malformed() -> Error {
    err!(Code::JS_INTERPRETER_FAILURE, "cannot convert this JavaScript value to BSON")
}
