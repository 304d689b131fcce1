//! Entry keys of map states as bytes that order as the values do.
//!
//! Invariant: for any two values of a type, their bytes compare as the values; no encoding is a
//! prefix of another of the same type, so tuples order by their parts.

/// A type that can be an entry of a map state.
pub trait EntryKey: Sized {
    /// Appends the bytes.
    fn encode(&self, out: &mut Vec<u8>);

    /// Reads the value from the front of `bytes` and moves them on; `None` when they are not one.
    fn decode(bytes: &mut &[u8]) -> Option<Self>;

    /// Returns the bytes.
    fn to_entry(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(16);
        self.encode(&mut out);
        out
    }
}

macro_rules! unsigned {
    ($($type:ty),*) => {$(
        impl EntryKey for $type {
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }

            fn decode(bytes: &mut &[u8]) -> Option<Self> {
                let (head, rest) = bytes.split_first_chunk()?;
                *bytes = rest;
                Some(Self::from_be_bytes(*head))
            }
        }
    )*};
}

unsigned!(u8, u16, u32, u64);

macro_rules! signed {
    ($($type:ty => $unsigned:ty),*) => {$(
        impl EntryKey for $type {
            fn encode(&self, out: &mut Vec<u8>) {
                (self.cast_unsigned() ^ (1 << (<$unsigned>::BITS - 1))).encode(out);
            }

            fn decode(bytes: &mut &[u8]) -> Option<Self> {
                let flipped = <$unsigned>::decode(bytes)?;
                Some((flipped ^ (1 << (<$unsigned>::BITS - 1))).cast_signed())
            }
        }
    )*};
}

signed!(i32 => u32, i64 => u64);

impl EntryKey for bool {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        u8::decode(bytes).map(|byte| byte != 0)
    }
}

/// Zero bytes become `00 FF`; `00 00` ends.
impl EntryKey for Vec<u8> {
    fn encode(&self, out: &mut Vec<u8>) {
        escape(self, out);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let mut value = Self::new();
        let mut rest = *bytes;
        loop {
            let (first, behind) = rest.split_first()?;
            if *first != 0 {
                value.push(*first);
                rest = behind;
                continue;
            }
            let (second, behind) = behind.split_first()?;
            rest = behind;
            match *second {
                0 => break,
                0xFF => value.push(0),
                _ => return None,
            }
        }
        *bytes = rest;
        Some(value)
    }
}

impl EntryKey for String {
    fn encode(&self, out: &mut Vec<u8>) {
        escape(self.as_bytes(), out);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        Self::from_utf8(Vec::decode(bytes)?).ok()
    }
}

fn escape(value: &[u8], out: &mut Vec<u8>) {
    for byte in value {
        out.push(*byte);
        if *byte == 0 {
            out.push(0xFF);
        }
    }
    out.extend_from_slice(&[0, 0]);
}

macro_rules! tuple {
    ($($name:ident . $at:tt),*) => {
        impl<$($name: EntryKey),*> EntryKey for ($($name,)*) {
            fn encode(&self, out: &mut Vec<u8>) {
                $(self.$at.encode(out);)*
            }

            fn decode(bytes: &mut &[u8]) -> Option<Self> {
                Some(($($name::decode(bytes)?,)*))
            }
        }
    };
}

tuple!(A.0, B.1);
tuple!(A.0, B.1, C.2);
tuple!(A.0, B.1, C.2, D.3);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check<K: EntryKey + Ord + std::fmt::Debug>(a: &K, b: &K) {
        let (left, right) = (a.to_entry(), b.to_entry());
        assert_eq!(a.cmp(b), left.cmp(&right), "{a:?} {b:?}");
        let mut bytes = left.as_slice();
        assert_eq!(K::decode(&mut bytes).as_ref(), Some(a));
        assert!(bytes.is_empty());
    }

    proptest! {
        #[test]
        fn bytes_order_as_the_values_do(
            a: (i64, u64, i32), b: (i64, u64, i32),
            c: (String, u32), d: (String, u32),
            e in proptest::collection::vec(0u8..3, 0..5), f in proptest::collection::vec(0u8..3, 0..5),
        ) {
            check(&a, &b);
            check(&c, &d);
            check(&e, &f);
            check(&(e.clone(), f.clone()), &(f, e));
        }
    }
}
