//! Spam e-mails as NDJSON and what was found out about them as CSV: the shape of ReCache's Symantec data (PVLDB 2017,
//! §6).
//!
//! The paper's data is not public. Its text gives: numeric and variable-length fields; flat and nested entries of
//! various depths; fields that only some objects have; the mail's body and language, its content type, its origin (IP
//! address, country); 3 million objects in 3.4 GB, so 1.1 KB each; as CSV an identifier of each e-mail, summaries and
//! classes, 40 million records in 2.2 GB, so 55 bytes each. Names, distributions and everything else are made up here.
//!
//! Invariants: mails are numbered from 0; a CSV line's `mail_id` is the number of one of the mails it was made for.

use super::draws::Draws;
use super::json::{Object, list, object, push_ten_thousandths};
use super::prose::{push_host, push_identifier, push_ip, push_prose, quoted};
use thermocline_tpch::{push_hundredths, push_integer};

/// Lines of CSV for each mail: 40 million over 3 million.
pub(super) const LINES_PER_MAIL: f64 = 40.0 / 3.0;

/// Seconds since 1970 of the first mail (1 January 2016), and from one to the next: 3 million take about a year.
const FIRST_RECEIVED_S: i64 = 1_451_606_400;
const BETWEEN_MAILS_S: i64 = 10;

const COUNTRIES: [&str; 24] = [
    "US", "CN", "IN", "VN", "RU", "BR", "MX", "TR", "DE", "UA", "FR", "IT", "PL", "ES", "TW", "AR", "ID", "IR", "TH",
    "CO", "RO", "KZ", "CH", "NO",
];
const LANGUAGES: [&str; 12] = ["en", "zh", "ru", "ja", "es", "de", "fr", "pt", "it", "tr", "pl", "vi"];
const CONTENT_TYPES: [&str; 6] =
    ["text/html", "text/plain", "multipart/alternative", "multipart/mixed", "multipart/related", "message/rfc822"];
const CHARSETS: [&str; 5] = ["utf-8", "iso-8859-1", "windows-1251", "gb2312", "us-ascii"];
const BOTS: [&str; 8] = ["cutwail", "kelihos", "necurs", "gamut", "tofsee", "darkmailer", "asprox", "lethic"];
const HEADERS: [&str; 10] = [
    "Received",
    "Message-ID",
    "Date",
    "MIME-Version",
    "X-Mailer",
    "List-Unsubscribe",
    "X-Priority",
    "Return-Path",
    "X-Originating-IP",
    "DKIM-Signature",
];
const ATTACHMENT_TYPES: [&str; 6] =
    ["application/zip", "application/pdf", "image/png", "image/gif", "text/html", "application/msword"];

/// One mail, without the line's end.
pub(super) fn push_mail(out: &mut Vec<u8>, draws: &mut Draws, id: u64) {
    let received_s = FIRST_RECEIVED_S + id as i64 * BETWEEN_MAILS_S + draws.between(0, 3600);
    object(out, |mail| {
        mail.integer("mail_id", id as i64);
        mail.integer("received_s", received_s);
        mail.integer("size_bytes", 400 + draws.long_tailed(3_000.0, 5_000_000) as i64);
        mail.ten_thousandths("score", draws.between(2_000, 10_000));
        mail.text("lang", draws.pick_skewed(&LANGUAGES));
        mail.ten_thousandths("lang_confidence", draws.between(5_000, 10_000));
        mail.integer("recipient_count", 1 + draws.long_tailed(2.0, 500) as i64);
        quoted(mail.name("subject"), |out| push_prose(out, draws, 30, false));
        mail.object("content", |content| push_content(content, draws));
        mail.object("origin", |origin| push_origin(origin, draws));
        if draws.chance(40) {
            mail.object("bot", |bot| {
                bot.text("family", draws.pick_skewed(&BOTS));
                bot.integer("campaign", draws.between(1, 40_000));
                bot.ten_thousandths("confidence", draws.between(0, 10_000));
            });
        }
        if draws.chance(15) {
            quoted(mail.name("reply_to"), |out| {
                push_identifier(out, draws, 8);
                out.push(b'@');
                push_host(out, draws);
            });
        }
        let header_count = draws.between(2, 6) as u64;
        mail.list("headers", header_count, |out, _| {
            quoted(out, |out| out.extend_from_slice(draws.pick(&HEADERS).as_bytes()))
        });
        let hop_count = draws.between(1, 4) as u64;
        mail.list("hops", hop_count, |out, _| {
            object(out, |hop| {
                quoted(hop.name("ip"), |out| push_ip(out, draws.below(1 << 32) as u32));
                hop.integer("delay_ms", draws.long_tailed(800.0, 86_400_000) as i64);
                hop.integer("ttl", draws.between(1, 255));
            });
        });
        if draws.chance(80) {
            let url_count = draws.between(0, 5) as u64;
            mail.list("urls", url_count, |out, _| object(out, |url| push_url(url, draws)));
        }
        if draws.chance(40) {
            // Three of ten mails that have the field have no attachment.
            let attachment_count = if draws.chance(30) { 0 } else { draws.between(1, 3) as u64 };
            mail.list("attachments", attachment_count, |out, _| object(out, |file| push_attachment(file, draws)));
        }
        let body_bytes = 50 + draws.long_tailed(62.0, 1_500) as usize;
        quoted(mail.name("body"), |out| push_prose(out, draws, body_bytes, true));
    });
}

fn push_content(content: &mut Object<'_>, draws: &mut Draws) {
    content.text("type", draws.pick_skewed(&CONTENT_TYPES));
    content.text("charset", draws.pick_skewed(&CHARSETS));
    content.integer("length_bytes", 80 + draws.long_tailed(2_000.0, 2_000_000) as i64);
    content.integer("line_count", draws.between(1, 400));
    content.integer("part_count", draws.between(1, 6));
}

fn push_origin(origin: &mut Object<'_>, draws: &mut Draws) {
    let address = draws.below(1 << 32) as u32;
    quoted(origin.name("ip"), |out| push_ip(out, address));
    origin.integer("port", draws.between(1_024, 65_535));
    origin.integer("asn", 1 + draws.long_tailed(9_000.0, 400_000) as i64);
    origin.text("country", draws.pick_skewed(&COUNTRIES));
    if draws.chance(80) {
        origin.object("location", |location| {
            location.ten_thousandths("lat", draws.between(-560_000, 700_000));
            location.ten_thousandths("lon", draws.between(-1_800_000, 1_800_000));
            location.integer("radius_km", draws.between(1, 1_000));
        });
    }
}

fn push_url(url: &mut Object<'_>, draws: &mut Draws) {
    quoted(url.name("host"), |out| push_host(out, draws));
    url.integer("length_bytes", draws.between(12, 400));
    url.integer("rank", 1 + draws.long_tailed(50_000.0, 10_000_000) as i64);
    url.object("page", |page| {
        page.integer("status", draws.pick(&[200, 200, 200, 301, 302, 404, 503]));
        page.integer("redirect_count", draws.between(0, 5));
    });
}

fn push_attachment(file: &mut Object<'_>, draws: &mut Draws) {
    quoted(file.name("name"), |out| {
        push_identifier(out, draws, 10);
        out.extend_from_slice(b".bin");
    });
    file.text("type", draws.pick_skewed(&ATTACHMENT_TYPES));
    file.integer("size_bytes", 200 + draws.long_tailed(20_000.0, 20_000_000) as i64);
    file.ten_thousandths("entropy", draws.between(0, 80_000));
    let section_count = draws.between(0, 3) as u64;
    list(file.name("section_bytes"), section_count, |out, _| push_integer(out, draws.between(16, 65_536)));
}

/// The names of the CSV's columns, as its first line.
pub(super) const CSV_HEADER: &[u8] = b"mail_id,engine,class,score,campaign,cluster_size,token_count,digest,seen_h\n";

/// One line of CSV, its end included: what one of the engines made of one of `mail_count` mails. There is at least one
/// mail.
pub(super) fn push_verdict(out: &mut Vec<u8>, draws: &mut Draws, mail_count: u64) {
    push_integer(out, draws.below(mail_count) as i64);
    for number in [draws.between(1, 40), draws.between(0, 24)] {
        out.push(b',');
        push_integer(out, number);
    }
    out.push(b',');
    push_ten_thousandths(out, draws.between(0, 10_000));
    for number in [
        draws.between(1, 40_000),
        1 + draws.long_tailed(300.0, 1_000_000) as i64,
        draws.between(10, 9_999),
        draws.between(1_000_000_000, 9_999_999_999),
    ] {
        out.push(b',');
        push_integer(out, number);
    }
    out.push(b',');
    push_hundredths(out, draws.between(0, 878_400)); // hours within the year
    out.push(b'\n');
}
