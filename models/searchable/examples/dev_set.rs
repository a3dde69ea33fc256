use std::io::BufWriter;
use std::fs::File;
use std::sync::Arc;
use parkhang_searchable::*;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let set = std::path::Path::new(&args[1]);
    let out = std::path::Path::new(&args[2]);
    let mut files: Vec<_> = std::fs::read_dir(set.join("pdf")).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    for path in files {
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let file = BufWriter::new(File::create(out.join(format!("{stem}.pdf"))).unwrap());
        let mut layer = match TextLayer::over(Arc::new(std::fs::read(&path).unwrap()), file) {
            Ok(layer) => layer,
            Err(error) => { println!("{stem}: {error}"); std::fs::remove_file(out.join(format!("{stem}.pdf"))).unwrap(); continue; }
        };
        for page in 0..layer.pages() {
            let truth = set.join("truth").join(&stem).join(format!("page_{}.json", page + 1));
            let Ok(text) = std::fs::read_to_string(&truth) else { println!("{stem} {page}: no truth"); continue };
            let truth: serde_json::Value = serde_json::from_str(&text).unwrap();
            let size = layer.page_size(page).unwrap();
            let (w, h) = (truth["width"].as_f64().unwrap(), truth["height"].as_f64().unwrap());
            if (size.width - w).abs() > 0.1 || (size.height - h).abs() > 0.1 { println!("{stem} {page}: size {size:?} truth {w} {h}"); }
            let words: Vec<(String, [f32; 4], u32)> = truth["words"].as_array().unwrap().iter().map(|w| {
                let b: Vec<f32> = w["bbox"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap() as f32).collect();
                (w["text"].as_str().unwrap().to_owned(), [b[0], b[1], b[2], b[3]], w["line"].as_u64().unwrap() as u32)
            }).collect();
            let words: Vec<Word> = words.iter().map(|(text, bbox, line)| Word { text, bbox: *bbox, line: *line }).collect();
            if let Err(error) = layer.add_page(page, &words, Spacing::Inferred) { println!("{stem} {page}: {error}"); }
        }
        layer.finish().unwrap();
    }
}
