//! Results made of fields of the inputs, as the configuration says.
//!
//! The configuration is an object from output names to sources, or a list of sources:
//!
//! ```yaml
//! result:
//!   order_id: order.order_id                    # a field of an input, copied as it is written
//!   paid: { from: payment.paid, absent: false } # what stands where there is none (default: null)
//!   payment: payment                            # the whole record
//!   status: status                              # a word of the plugin's own
//! ```
//!
//! Invariant: fields stand in the result in the order of the configuration; values are the text
//! of the input, digit for digit.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{self, value::MapAccessDeserializer},
};
use serde_json::value::RawValue;

use crate::{
    error::{Error, Result},
    json::{Fields, write_string},
};

/// Which fields a result has, as configured.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shape(Vec<(String, Source)>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Source {
    from: String,
    absent: String,
}

/// A shape, ready to make results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    sides: Vec<Fields>,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    /// Everything up to the value: comma, name and colon.
    lead: String,
    place: Place,
    absent: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Field { side: usize, slot: usize },
    Word(usize),
}

/// The values of one side's wanted fields, in the order of [`Template::fields`]; an absent side
/// is an empty list.
pub type Side<'a, 'v> = &'a [Option<&'v str>];

impl Shape {
    /// Returns the shape of a plugin that was told none: the whole record of every side, then the
    /// given words.
    #[must_use]
    pub fn whole(sides: &[&str], words: &[&str]) -> Self {
        let sources = sides.iter().chain(words);
        Self(sources.map(|name| ((*name).to_owned(), Source::new(name))).collect())
    }

    /// Makes it ready: `sides` are the plugin's inputs and `words` what else it can tell.
    ///
    /// # Errors
    ///
    /// When a source is neither a field of a side nor a word.
    pub fn compile(&self, sides: &[&str], words: &[&str]) -> Result<Template> {
        let mut fields = vec![Fields::default(); sides.len()];
        let mut parts = Vec::with_capacity(self.0.len());
        for (name, source) in &self.0 {
            let mut lead = if parts.is_empty() { b"{".to_vec() } else { b",".to_vec() };
            write_string(name, &mut lead);
            lead.push(b':');
            let lead = String::from_utf8(lead)?;
            let place = place(&source.from, sides, words, &mut fields)?;
            parts.push(Part { lead, place, absent: source.absent.clone() });
        }
        Ok(Template { sides: fields, parts })
    }
}

fn place(from: &str, sides: &[&str], words: &[&str], fields: &mut [Fields]) -> Result<Place> {
    let (side, field) = match from.split_once('.') {
        Some((side, field)) => (side, Some(field)),
        None => (from, None),
    };
    if let Some(at) = sides.iter().position(|known| *known == side) {
        let slot = match field {
            Some(field) => fields[at].want(field),
            None => fields[at].want_whole(),
        };
        return Ok(Place::Field { side: at, slot });
    }
    if let Some(at) = words.iter().position(|word| *word == from) {
        return Ok(Place::Word(at));
    }
    let sides = sides.iter().map(|side| format!("`{side}.<field>`")).collect::<Vec<_>>().join(", ");
    let words = words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    Err(Error::new(format!("result: `{from}` is none of {sides}, {words}")))
}

impl Template {
    /// Returns the fields that results need of a side.
    #[must_use]
    pub fn fields(&self, side: usize) -> &Fields {
        &self.sides[side]
    }

    /// Returns the fields that results need of a side, to add to them what the plugin itself needs.
    pub fn fields_mut(&mut self, side: usize) -> &mut Fields {
        &mut self.sides[side]
    }

    /// Writes a result. `words` are JSON texts in the order given to [`Shape::compile`].
    pub fn render(&self, sides: &[Side<'_, '_>], words: &[&str], out: &mut Vec<u8>) {
        out.clear();
        if self.parts.is_empty() {
            out.push(b'{');
        }
        for part in &self.parts {
            out.extend_from_slice(part.lead.as_bytes());
            let text = match part.place {
                Place::Field { side, slot } => sides[side].get(slot).copied().flatten(),
                Place::Word(at) => Some(words[at]),
            };
            out.extend_from_slice(text.unwrap_or(&part.absent).as_bytes());
        }
        out.push(b'}');
    }
}

impl Source {
    fn new(from: &str) -> Self {
        Self { from: from.to_owned(), absent: "null".to_owned() }
    }

    /// Returns the name a source has in a list: its last part.
    fn own_name(&self) -> String {
        self.from.split_once('.').map_or(self.from.as_str(), |(_, field)| field).to_owned()
    }
}

impl<'de> Deserialize<'de> for Source {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Full {
            from: String,
            absent: Option<Box<RawValue>>,
        }

        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Source;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a source such as `order.amount`, or `{ from: order.amount, absent: 0 }`",
                )
            }

            fn visit_str<E: de::Error>(self, text: &str) -> std::result::Result<Source, E> {
                Ok(Source::new(text))
            }

            fn visit_map<A: de::MapAccess<'de>>(
                self,
                map: A,
            ) -> std::result::Result<Source, A::Error> {
                let full = Full::deserialize(MapAccessDeserializer::new(map))?;
                let mut source = Source::new(&full.from);
                if let Some(absent) = full.absent {
                    absent.get().clone_into(&mut source.absent);
                }
                Ok(source)
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

fn refuse_twice<E: de::Error>(
    parts: &[(String, Source)],
    name: &str,
    source: &Source,
) -> std::result::Result<(), E> {
    if parts.iter().any(|(known, _)| known == name) {
        return Err(E::custom(format_args!(
            "result: `{name}` is there twice; give each a name of its own: `other: {}`",
            source.from
        )));
    }
    Ok(())
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Shape;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object from output names to sources, or a list of sources")
            }

            fn visit_map<A: de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Shape, A::Error> {
                let mut parts: Vec<(String, Source)> = Vec::new();
                while let Some((name, source)) = map.next_entry::<String, Source>()? {
                    refuse_twice(&parts, &name, &source)?;
                    parts.push((name, source));
                }
                Ok(Shape(parts))
            }

            fn visit_seq<A: de::SeqAccess<'de>>(
                self,
                mut list: A,
            ) -> std::result::Result<Shape, A::Error> {
                let mut parts: Vec<(String, Source)> = Vec::new();
                while let Some(source) = list.next_element::<Source>()? {
                    let name = source.own_name();
                    refuse_twice(&parts, &name, &source)?;
                    parts.push((name, source));
                }
                Ok(Shape(parts))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIDES: [&str; 2] = ["order", "payment"];

    fn render(shape: &str, order: &str, payment: Option<&str>) -> String {
        let shape: Shape = serde_json::from_str(shape).unwrap();
        let template = shape.compile(&SIDES, &["status"]).unwrap();
        let order = template.fields(0).pick(order.as_bytes()).unwrap();
        let payment = payment.map(|text| template.fields(1).pick(text.as_bytes()).unwrap());
        let payment: Side<'_, '_> = payment.as_deref().unwrap_or(&[]);
        let mut out = b"left over".to_vec();
        template.render(&[&order, payment], &["\"PAID\""], &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_result_has_the_configured_fields_in_their_order() {
        let shape = r#"{"s":"status","id":"order.id","paid":{"from":"payment.paid","absent":0}}"#;
        let order = r#"{"id":12345678901234567890.10,"other":1}"#;
        assert_eq!(
            render(shape, order, Some(r#"{"paid": true}"#)),
            r#"{"s":"PAID","id":12345678901234567890.10,"paid":true}"#
        );
        assert_eq!(render(shape, "{}", None), r#"{"s":"PAID","id":null,"paid":0}"#);
    }

    #[test]
    fn a_list_names_results_after_their_fields() {
        let result = render(r#"["order.id","payment"]"#, r#"{"id":1}"#, Some(r#"{"a":2}"#));
        assert_eq!(result, r#"{"id":1,"payment":{"a":2}}"#);
        let error = serde_json::from_str::<Shape>(r#"["order.id","payment.id"]"#).unwrap_err();
        assert!(error.to_string().contains("`id` is there twice"), "{error}");
    }

    #[test]
    fn an_unknown_source_is_refused_with_the_known_ones() {
        let shape: Shape = serde_json::from_str(r#"{"id":"ordr.id"}"#).unwrap();
        let error = shape.compile(&SIDES, &["status"]).unwrap_err();
        assert_eq!(
            error.message(),
            "result: `ordr.id` is none of `order.<field>`, `payment.<field>`, `status`"
        );
    }
}
