//! Several byte strings in one: two bytes with the length of a piece, the piece, and so on.

/// The pieces of `data`; the last one may be shorter than it says.
pub fn split(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = data;
    std::iter::from_fn(move || {
        let (length, behind) = rest.split_first_chunk::<2>()?;
        let length = usize::from(u16::from_le_bytes(*length)).min(behind.len());
        let (piece, behind) = behind.split_at(length);
        rest = behind;
        Some(piece)
    })
}

/// The inverse, for pieces of up to 65,535 bytes.
pub fn join<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    for piece in pieces {
        let length = u16::try_from(piece.len()).expect("a short piece");
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(piece);
    }
    out
}
