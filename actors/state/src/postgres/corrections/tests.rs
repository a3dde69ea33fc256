use futures::future::join_all;
use uuid::Uuid;

use crate::postgres::PostgresStore;
use crate::postgres::tests::store;
use crate::{EditOutcome, EditQuery, NewEdit};
use parkhang_core::domain::{Edit, PageLine, RecordedEdit, VolumeId};
use parkhang_core::policy::correction::MOST_LINES;

fn line(id: &str, text: &str) -> PageLine {
    PageLine {
        id: id.to_owned(),
        polygon: vec![[0, 0], [9, 0], [9, 9]],
        text: text.to_owned(),
    }
}

fn edit(image: &str, who: &str, from: &str, to: &str) -> NewEdit {
    NewEdit {
        volume: volume(),
        image: image.to_owned(),
        job: "press".parse().unwrap(),
        who: who.to_owned(),
        edit: Edit {
            id: Uuid::new_v4(),
            replaces: vec![line("a", from)],
            lines: vec![line("a", to)],
        },
    }
}

fn volume() -> VolumeId {
    "W1-I1".parse().unwrap()
}

async fn texts(store: &PostgresStore, image: &str) -> Vec<String> {
    let pages = store.corrections(&volume()).await.unwrap();
    let corrections = pages.get(image).into_iter().flat_map(|page| &page.corrections);
    corrections
        .flat_map(|correction| correction.lines())
        .map(|corrected| corrected.line.text.clone())
        .collect()
}

#[tokio::test]
async fn edits_are_kept_once_and_in_their_order() {
    let store = store().await;
    let mark = store.change_mark().await.unwrap();
    let first = edit("p1", "eva", "ཀ", "ཁ");
    for _ in 0..2 {
        assert_eq!(store.record_edit(&first).await.unwrap(), EditOutcome::Recorded);
    }
    assert_ne!(
        store.change_mark().await.unwrap(),
        mark,
        "nobody is told of the edit"
    );
    let stale = store.record_edit(&edit("p1", "otto", "ཀ", "ག")).await.unwrap();
    let EditOutcome::Conflict(conflict) = stale else {
        panic!("{stale:?}");
    };
    assert_eq!((conflict.line.as_str(), conflict.who.as_str()), ("a", "eva"));
    let second = edit("p1", "otto", "ཁ", "ག");
    assert_eq!(store.record_edit(&second).await.unwrap(), EditOutcome::Recorded);
    assert_eq!(texts(&store, "p1").await, ["ག"]);
    let pages = store.corrections(&volume()).await.unwrap();
    assert_eq!(
        store.corrections_of_page(&volume(), "p1").await.unwrap(),
        pages["p1"]
    );
    assert_eq!(store.edited_volumes().await.unwrap(), [(volume(), 2)].into());
    // Where the same line is of another page, it is another line; the same id cannot be of two edits.
    let elsewhere = NewEdit {
        image: "p2".to_owned(),
        ..first.clone()
    };
    assert_eq!(store.record_edit(&elsewhere).await.unwrap(), EditOutcome::Taken);
    assert_eq!(texts(&store, "p2").await, [""; 0]);
    let known = async |image| store.has_edit(&volume(), image, &first.edit.id).await.unwrap();
    assert!(known("p1").await && !known("p2").await);

    let all = EditQuery {
        limit: 9,
        ..EditQuery::default()
    };
    let edits: Vec<RecordedEdit> = store.edits(&all).await.unwrap().entries;
    let listed: Vec<_> = edits
        .iter()
        .map(|edit| (edit.revision, edit.who.as_str()))
        .collect();
    assert_eq!(listed, [(2, "otto"), (1, "eva")]);
    assert_eq!(edits[1].edit, first.edit);
    let of_eva = EditQuery {
        who: Some("eva".to_owned()),
        volume: Some(volume()),
        before: Some(edits[0].at),
        ..all
    };
    assert_eq!(store.edits(&of_eva).await.unwrap().entries, edits[1..]);
}

#[tokio::test]
async fn a_page_that_is_full_of_lines_takes_no_more() {
    let store = store().await;
    let adding = |number: usize| NewEdit {
        edit: Edit {
            id: Uuid::new_v4(),
            replaces: Vec::new(),
            lines: (0..500)
                .map(|line_number| line(&format!("{number}-{line_number}"), ""))
                .collect(),
        },
        ..edit("p1", "eva", "", "")
    };
    for number in 0..MOST_LINES / 500 {
        let outcome = store.record_edit(&adding(number)).await.unwrap();
        assert_eq!(outcome, EditOutcome::Recorded);
    }
    assert_eq!(store.record_edit(&adding(99)).await.unwrap(), EditOutcome::Full);
    let other = NewEdit {
        image: "p2".to_owned(),
        ..adding(99)
    };
    assert_eq!(store.record_edit(&other).await.unwrap(), EditOutcome::Recorded);
}

/// Keeps edits of a page of a volume as long as edits may be, more of them than an answer holds.
async fn keep_long(store: &PostgresStore, volume: &VolumeId, edits: u32, bytes: u32) {
    let made = sqlx::query(
        "insert into corrections (edit_id, bdrc_w_id, bdrc_i_id, image_name, revision, job_key, who, at, replaces, lines)
         select gen_random_uuid(), $1, $2, 'long', number, 'press', 'eva', now() + number * interval '1 second', '[]',
             jsonb_build_array(jsonb_build_object('id', 'a', 'polygon', '[]'::jsonb, 'text', repeat('x', $4)))
         from generate_series(1, $3) as number",
    );
    let made = made.bind(volume.w_id()).bind(volume.i_id());
    let number = |count: u32| i32::try_from(count).unwrap();
    made.bind(number(edits))
        .bind(number(bytes))
        .execute(&store.pool)
        .await
        .unwrap();
}

#[tokio::test]
async fn an_answer_with_long_edits_is_bounded_and_goes_on_where_it_ends() {
    let store = store().await;
    keep_long(&store, &volume(), 5, 3 << 20).await;
    let of = async |before| {
        let query = EditQuery {
            limit: 5,
            before,
            ..EditQuery::default()
        };
        let found = store.edits(&query).await.unwrap();
        let revisions: Vec<u32> = found.entries.iter().map(|edit| edit.revision).collect();
        (
            revisions,
            found.entries.last().map(|edit| edit.at),
            found.has_more,
        )
    };
    let (revisions, last, has_more) = of(None).await;
    assert!(revisions == [5, 4, 3] && has_more, "{revisions:?}");
    let (revisions, _, has_more) = of(last).await;
    assert!(revisions == [2, 1] && !has_more, "{revisions:?}");
}

#[tokio::test]
async fn a_volume_takes_so_many_bytes_of_edits() {
    let store = store().await;
    keep_long(&store, &volume(), 32, 4 << 20).await;
    let more = edit("p1", "eva", "ཀ", "ཁ");
    assert_eq!(store.record_edit(&more).await.unwrap(), EditOutcome::Full);
    let elsewhere = NewEdit {
        volume: "W1-I2".parse().unwrap(),
        ..more
    };
    assert_eq!(
        store.record_edit(&elsewhere).await.unwrap(),
        EditOutcome::Recorded
    );
}

#[tokio::test]
async fn of_edits_of_one_line_at_the_same_time_one_is_kept() {
    let store = store().await;
    let edits: Vec<NewEdit> = (0..8)
        .map(|number| edit("p1", "eva", "ཀ", &number.to_string()))
        .collect();
    let outcomes = join_all(edits.iter().map(|edit| store.record_edit(edit))).await;
    let kept = outcomes
        .iter()
        .filter(|outcome| matches!(outcome, Ok(EditOutcome::Recorded)))
        .count();
    assert_eq!(kept, 1, "{outcomes:?}");
    // Edits of other lines do not stand in each other's way.
    let others: Vec<NewEdit> = (0..8)
        .map(|number| {
            let mut other = edit("p1", "otto", "ཀ", "ཁ");
            other.edit.replaces[0].id = format!("line-{number}");
            other.edit.lines[0].id = format!("line-{number}");
            other
        })
        .collect();
    let outcomes = join_all(others.iter().map(|edit| store.record_edit(edit))).await;
    assert!(
        outcomes
            .iter()
            .all(|outcome| matches!(outcome, Ok(EditOutcome::Recorded)))
    );
    let pages = store.corrections(&volume()).await.unwrap();
    assert_eq!((pages["p1"].revision, pages["p1"].corrections.len()), (9, 9));
}
