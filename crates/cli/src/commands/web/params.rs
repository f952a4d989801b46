//! What addresses and forms carry.

use super::names;
use crate::failure::Failure;

/// Pairs of names and values, in their order.
#[derive(Debug, Clone, Default)]
pub struct Params(Vec<(String, String)>);

impl Params {
    /// Reads `name=value&…`.
    pub fn read(encoded: &[u8]) -> Self {
        Self(form_urlencoded::parse(encoded).into_owned().collect())
    }

    /// The first value of that name, if it is not empty.
    pub fn text(&self, name: &str) -> Option<&str> {
        let (_, value) = self.0.iter().find(|(own, _)| own == name)?;
        Some(value.as_str()).filter(|value| !value.is_empty())
    }

    /// All values of that name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let found = self.0.iter().filter(move |(own, _)| own == name);
        found.map(|(_, value)| value.as_str())
    }

    /// A name of something, which may be any bytes.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        self.text(name).map(names::read)
    }

    /// The name of something without which there is nothing to do.
    pub fn needed(&self, name: &str) -> Result<Vec<u8>, Failure> {
        let missing = || Failure::usage(format!("the address or the form has no {name}"));
        self.bytes(name).ok_or_else(missing)
    }

    /// A number; none if it is not one.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }
}
