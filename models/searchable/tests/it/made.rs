//! PDFs made for a test.

/// Assembles a file of these objects, numbered from 1, of which the first is the catalog.
pub(crate) fn pdf(objects: &[&str]) -> Vec<u8> {
    let mut file = b"%PDF-1.7\n".to_vec();
    let mut table = format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1);
    for (number, object) in (1..).zip(objects) {
        table.push_str(&format!("{:010} 00000 n \n", file.len()));
        file.extend_from_slice(format!("{number} 0 obj\n{object}\nendobj\n").as_bytes());
    }
    let start = file.len();
    file.extend_from_slice(table.as_bytes());
    let size = objects.len() + 1;
    file.extend_from_slice(
        format!("trailer\n<</Size {size}/Root 1 0 R>>\nstartxref\n{start}\n%%EOF").as_bytes(),
    );
    file
}

/// Assembles a file of one page with these entries beside type and parent.
pub(crate) fn page(entries: &str) -> Vec<u8> {
    pdf(&[
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Kids[3 0 R]/Count 1/Resources<</Font<</Invisible0 4 0 R>>/ProcSet[/PDF]>>>>",
        &format!("<</Type/Page/Parent 2 0 R{entries}>>"),
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        "[6 0 R 7 0 R]",
        "<</Length 22>>stream\nq q Q Q Q 2 0 0 2 9 9 \nendstream",
        "<</Length 20>>stream\ncm q q 0 0 9 9 re f  \nendstream",
    ])
}
