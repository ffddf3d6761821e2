//! `doc!` and `array!`: owned documents in a literal notation, for tests and small replies.

/// Builds a [`crate::DocBuf`]: `doc! { "a": 1, "b": { "c": "x" }, "d": [1, 2.5] }`.
#[macro_export]
macro_rules! doc {
    () => { $crate::DocBuf::new() };
    ( $($body:tt)+ ) => { $crate::DocBuf::build(|w| { $crate::doc_fields!(w; $($body)+); }) };
}

/// Builds a [`crate::ArrayBuf`]: `array! [1, "x", { "a": 1 }]`.
#[macro_export]
macro_rules! array {
    () => { $crate::ArrayBuf::build(|_| ()) };
    ( $($body:tt)+ ) => { $crate::ArrayBuf::build(|w| { $crate::array_items!(w; $($body)+); }) };
}

#[doc(hidden)]
#[macro_export]
macro_rules! doc_fields {
    ($w:ident;) => {};
    ($w:ident; $k:tt : null $(, $($rest:tt)*)?) => {
        $w.put($k, $crate::Value::Null); $crate::doc_fields!($w; $($($rest)*)?);
    };
    ($w:ident; $k:tt : { $($inner:tt)* } $(, $($rest:tt)*)?) => {
        #[allow(unused_variables)]
        $w.doc($k, |w| { $crate::doc_fields!(w; $($inner)*); });
        $crate::doc_fields!($w; $($($rest)*)?);
    };
    ($w:ident; $k:tt : [ $($inner:tt)* ] $(, $($rest:tt)*)?) => {
        #[allow(unused_variables)]
        $w.array($k, |w| { $crate::array_items!(w; $($inner)*); });
        $crate::doc_fields!($w; $($($rest)*)?);
    };
    ($w:ident; $k:tt : $v:expr $(, $($rest:tt)*)?) => {
        $w.put($k, $v); $crate::doc_fields!($w; $($($rest)*)?);
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! array_items {
    ($w:ident;) => {};
    ($w:ident; null $(, $($rest:tt)*)?) => {
        $w.push($crate::Value::Null); $crate::array_items!($w; $($($rest)*)?);
    };
    ($w:ident; { $($inner:tt)* } $(, $($rest:tt)*)?) => {
        #[allow(unused_variables)]
        $w.doc(|w| { $crate::doc_fields!(w; $($inner)*); });
        $crate::array_items!($w; $($($rest)*)?);
    };
    ($w:ident; [ $($inner:tt)* ] $(, $($rest:tt)*)?) => {
        #[allow(unused_variables)]
        $w.array(|w| { $crate::array_items!(w; $($inner)*); });
        $crate::array_items!($w; $($($rest)*)?);
    };
    ($w:ident; $v:expr $(, $($rest:tt)*)?) => {
        $w.push($v); $crate::array_items!($w; $($($rest)*)?);
    };
}
