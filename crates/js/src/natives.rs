//! The functions of the prelude that are implemented in Rust. None of them accesses files or sockets.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nagi_bson::{Decimal128, Value, ValueBuf, json, oid};
use nagi_budget::meter;
use nagi_error::{Code, err};
use rquickjs::{Ctx, Exception, Function, Object, Result, Value as Js};

use crate::from_js::{Failure, FromScript};
use crate::host::Shared;
use crate::text;

/// The maximum size of the pairs that one document emits; the same as of the value of an expression.
const EMIT_BYTES_MAX: usize = 64 << 20;
/// The version that scripts see: that of the supported commands.
const VERSION: &str = "8.0.0";
/// The interval of the interrupt checks of `sleep`.
const NAP: Duration = Duration::from_millis(5);

/// The argument of the prelude: an object with the native functions.
pub(crate) fn natives<'js>(ctx: &Ctx<'js>, shared: &Rc<Shared>) -> Result<Object<'js>> {
    let natives = Object::new(ctx.clone())?;
    natives.set("md5", Function::new(ctx.clone(), |text: String| text::md5(&text))?)?;
    natives.set("version", Function::new(ctx.clone(), || VERSION)?)?;
    natives.set("toHex", Function::new(ctx.clone(), to_hex)?)?;
    natives.set("toBase64", Function::new(ctx.clone(), to_base64)?)?;
    natives.set("decimal", Function::new(ctx.clone(), decimal)?)?;
    let seed: [u8; 5] = random(ctx)?;
    let ids = oid::Generator::new(seed, 0);
    let new_id = move || text::hex(&ids.next(seconds()));
    natives.set("objectId", Function::new(ctx.clone(), new_id)?)?;
    natives.set("uuid", Function::new(ctx.clone(), uuid)?)?;
    let own = shared.clone();
    let emit = move |ctx: Ctx<'js>, key: Js<'js>, value: Js<'js>| emit(&ctx, &own, &key, &value);
    natives.set("emit", Function::new(ctx.clone(), emit)?)?;
    let own = shared.clone();
    let sleep = move |ctx: Ctx<'js>, ms: f64| sleep(&ctx, &own, ms);
    natives.set("sleep", Function::new(ctx.clone(), sleep)?)?;
    Ok(natives)
}

/// The argument of `bounds.js`: an interrupt check that throws.
pub(crate) fn asking<'js>(ctx: &Ctx<'js>, shared: &Rc<Shared>) -> Result<Function<'js>> {
    let pace = shared.pace.clone();
    Function::new(ctx.clone(), move |ctx: Ctx<'js>| match pace.go_on() {
        true => Ok(()),
        false => Err(Exception::throw_message(&ctx, "interrupted")),
    })
}

fn seconds() -> u32 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as u32)
}

fn to_hex(ctx: Ctx<'_>, base64: String) -> Result<String> {
    match json::base64_decode(&base64) {
        Some(bytes) => Ok(text::hex(&bytes)),
        None => Err(Exception::throw_message(&ctx, "invalid base64")),
    }
}

fn to_base64(ctx: Ctx<'_>, hex: String) -> Result<String> {
    match text::from_hex(&hex) {
        Some(bytes) => {
            let mut out = String::new();
            json::base64_encode(&mut out, &bytes);
            Ok(out)
        }
        None => Err(Exception::throw_message(&ctx, "invalid hex string")),
    }
}

fn decimal(ctx: Ctx<'_>, shown: String) -> Result<String> {
    match Decimal128::parse(shown.trim()) {
        Some(number) => Ok(number.to_string()),
        None => Err(Exception::throw_message(&ctx, "Input is not a valid Decimal128 value.")),
    }
}

/// Random bytes of the operating system.
fn random<const COUNT: usize>(ctx: &Ctx<'_>) -> Result<[u8; COUNT]> {
    let mut bytes = [0; COUNT];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(_) => Err(Exception::throw_message(ctx, "the system provides no random bytes")),
    }
}

/// A random UUID of version 4.
fn uuid(ctx: Ctx<'_>) -> Result<String> {
    let mut digits = text::hex(&random::<16>(&ctx)?);
    digits.replace_range(12..13, "4");
    digits.replace_range(16..17, "a");
    Ok(digits)
}

fn emit<'js>(ctx: &Ctx<'js>, shared: &Shared, key: &Js<'js>, value: &Js<'js>) -> Result<()> {
    if !shared.emitted.borrow().open {
        return Err(Exception::throw_message(ctx, "emit may be called by map functions only"));
    }
    // Cloned before any code of the script (getters) runs.
    let saved = shared.host.borrow().clone();
    let Some(saved) = saved else { return Err(rquickjs::Error::Unknown) };
    let host = saved.restore(ctx)?;
    let converter = FromScript { host: &host, shared };
    let outcome = converter.value(key).and_then(|key| Ok((key, converter.value(value)?)));
    let (key, value) = outcome.map_err(|failure| match failure {
        Failure::Script(error) => error,
        Failure::Limit(error) => {
            let thrown = Exception::throw_message(ctx, error.message());
            shared.pace.stop(error);
            thrown
        }
    })?;
    let mut emitted = shared.emitted.borrow_mut();
    emitted.bytes += key.heap_bytes() + value.heap_bytes() + 64;
    if emitted.bytes > EMIT_BYTES_MAX {
        shared.pace.stop(err!(
            Code::Location(31292),
            "Size of emitted values exceeds the set size limit of {EMIT_BYTES_MAX} bytes"
        ));
        return Err(Exception::throw_message(ctx, "emitted too much"));
    }
    // A full list is copied to one of twice its capacity.
    let full = emitted.pairs.len() == emitted.pairs.capacity();
    let grown = if full { 2 * emitted.pairs.len() * size_of::<(ValueBuf, ValueBuf)>() } else { 0 };
    if !meter::fits(grown) {
        shared.pace.stop(err!(
            Code::EXCEEDED_MEMORY_LIMIT,
            "Exceeded memory limit: the server has no memory left for the output of a map function"
        ));
        return Err(Exception::throw_message(ctx, "emitted too much"));
    }
    let is_missing = matches!(key.value(), Value::Undefined);
    let key = if is_missing { ValueBuf::new(Value::Null) } else { key };
    emitted.pairs.push((key, value));
    Ok(())
}

fn sleep(ctx: &Ctx<'_>, shared: &Shared, ms: f64) -> Result<()> {
    let began = Instant::now();
    let until = began + Duration::from_millis(ms.clamp(0.0, 3_600_000.0) as u64);
    let mut goes_on = true;
    while goes_on && Instant::now() < until {
        goes_on = shared.pace.go_on();
        if goes_on {
            std::thread::sleep(NAP.min(until.saturating_duration_since(Instant::now())));
        }
    }
    SLEPT.set(SLEPT.get() + began.elapsed());
    if goes_on { Ok(()) } else { Err(Exception::throw_message(ctx, "interrupted")) }
}

thread_local! {
    static SLEPT: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// The time for which scripts of this thread's request have slept.
pub fn slept() -> Duration {
    SLEPT.get()
}

/// The thread's request is over.
pub(crate) fn forget_sleep() {
    SLEPT.set(Duration::ZERO);
}
