//! Businesses, users and reviews as NDJSON: the shapes of Yelp's open data set, which ReCache was measured on (PVLDB
//! 2017, §6).
//!
//! The names of fields are the data set's; the values are made up. What the measurements live on is kept: users have a
//! long list of friends (some twenty in the middle, thousands at most), businesses have short lists and optional
//! attributes, reviews are flat with a long text. A business has its check-ins as a list in itself, which Yelp gives as
//! a file of their own.

use super::draws::Draws;
use super::json::{Object, object};
use super::prose::{push_date, push_identifier, push_prose, quoted};
use thermocline_tpch::push_integer;

const IDENTIFIER_LETTERS: usize = 22;

const CITIES: [(&str, &str, i64, i64); 10] = [
    ("Las Vegas", "NV", 361_700, -1_151_400),
    ("Phoenix", "AZ", 334_500, -1_120_700),
    ("Toronto", "ON", 436_500, -793_800),
    ("Charlotte", "NC", 352_300, -808_400),
    ("Scottsdale", "AZ", 335_000, -1_119_300),
    ("Pittsburgh", "PA", 404_400, -800_000),
    ("Montréal", "QC", 455_100, -735_500),
    ("Cleveland", "OH", 415_000, -816_900),
    ("Stuttgart", "BW", 487_800, 91_800),
    ("Edinburgh", "EDH", 559_500, -31_900),
];
const CATEGORIES: [&str; 20] = [
    "Restaurants",
    "Shopping",
    "Food",
    "Beauty & Spas",
    "Home Services",
    "Nightlife",
    "Health & Medical",
    "Bars",
    "Automotive",
    "Local Services",
    "Event Planning",
    "Active Life",
    "Fashion",
    "Sandwiches",
    "Fast Food",
    "Pizza",
    "Coffee & Tea",
    "Hair Salons",
    "Hotels & Travel",
    "Arts",
];
const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const COMPLIMENTS: [&str; 11] = [
    "compliment_hot",
    "compliment_more",
    "compliment_profile",
    "compliment_cute",
    "compliment_list",
    "compliment_note",
    "compliment_plain",
    "compliment_cool",
    "compliment_funny",
    "compliment_writer",
    "compliment_photos",
];

fn push_id(record: &mut Object<'_>, name: &str, draws: &mut Draws) {
    quoted(record.name(name), |out| push_identifier(out, draws, IDENTIFIER_LETTERS));
}

/// One business, without the line's end.
pub(super) fn push_business(out: &mut Vec<u8>, draws: &mut Draws) {
    object(out, |business| {
        push_id(business, "business_id", draws);
        quoted(business.name("name"), |out| push_prose(out, draws, 14, false));
        let (city, state, latitude, longitude) = draws.pick_skewed(&CITIES);
        quoted(business.name("address"), |out| {
            push_integer(out, draws.between(1, 9_999));
            out.push(b' ');
            push_prose(out, draws, 8, false);
        });
        business.text("city", city);
        business.text("state", state);
        business.ten_thousandths("latitude", latitude + draws.between(-2_000, 2_000));
        business.ten_thousandths("longitude", longitude + draws.between(-2_000, 2_000));
        business.hundredths("stars", 50 * draws.between(2, 10));
        business.integer("review_count", 3 + draws.long_tailed(8.0, 8_000) as i64);
        business.integer("is_open", i64::from(draws.chance(84)));
        business.object("attributes", |attributes| push_attributes(attributes, draws));
        let category_count = draws.between(1, 6) as u64;
        business.list("categories", category_count, |out, _| {
            quoted(out, |out| out.extend_from_slice(draws.pick_skewed(&CATEGORIES).as_bytes()));
        });
        if draws.chance(72) {
            business.object("hours", |hours| {
                for day in DAYS {
                    if draws.chance(15) {
                        continue; // closed
                    }
                    let (open, close) = (draws.between(6, 11), draws.between(15, 23));
                    quoted(hours.name(day), |out| {
                        push_integer(out, open);
                        out.extend_from_slice(b":00-");
                        push_integer(out, close);
                        out.extend_from_slice(b":00");
                    });
                }
            });
        }
        let checkin_count = draws.long_tailed(8.0, 168);
        business.list("checkins", checkin_count, |out, _| {
            object(out, |checkin| {
                checkin.integer("day", draws.between(0, 6));
                checkin.integer("hour", draws.between(0, 23));
                checkin.integer("count", 1 + draws.long_tailed(1.5, 400) as i64);
            });
        });
    });
}

fn push_attributes(attributes: &mut Object<'_>, draws: &mut Draws) {
    if draws.chance(62) {
        attributes.integer("RestaurantsPriceRange2", draws.between(1, 4));
    }
    for (name, percent) in [("BikeParking", 50), ("BusinessAcceptsCreditCards", 75), ("WheelchairAccessible", 28)] {
        if draws.chance(percent) {
            attributes.boolean(name, draws.chance(70));
        }
    }
    if draws.chance(30) {
        attributes.text("WiFi", draws.pick(&["no", "free", "paid"]));
    }
    if draws.chance(35) {
        attributes.object("BusinessParking", |parking| {
            for name in ["garage", "street", "lot"] {
                parking.boolean(name, draws.chance(40));
            }
        });
    }
}

/// One user, without the line's end.
pub(super) fn push_user(out: &mut Vec<u8>, draws: &mut Draws) {
    object(out, |user| {
        push_id(user, "user_id", draws);
        quoted(user.name("name"), |out| push_prose(out, draws, 4, false));
        user.integer("review_count", draws.long_tailed(6.0, 12_000) as i64);
        quoted(user.name("yelping_since"), |out| push_date(out, draws));
        // Four of ten have no friends there.
        let friend_count = if draws.chance(40) { 0 } else { draws.long_tailed(17.0, 5_000) };
        user.list("friends", friend_count, |out, _| {
            quoted(out, |out| push_identifier(out, draws, IDENTIFIER_LETTERS));
        });
        for name in ["useful", "funny", "cool"] {
            user.integer(name, draws.long_tailed(4.0, 100_000) as i64);
        }
        user.integer("fans", draws.long_tailed(0.8, 6_000) as i64);
        let elite_count = if draws.chance(94) { 0 } else { draws.between(1, 12) as u64 };
        user.list("elite", elite_count, |out, index| push_integer(out, 2005 + index as i64));
        user.hundredths("average_stars", draws.between(100, 500));
        for name in COMPLIMENTS {
            user.integer(name, draws.long_tailed(0.6, 20_000) as i64);
        }
    });
}

/// One review, without the line's end.
pub(super) fn push_review(out: &mut Vec<u8>, draws: &mut Draws) {
    object(out, |review| {
        push_id(review, "review_id", draws);
        push_id(review, "user_id", draws);
        push_id(review, "business_id", draws);
        review.integer("stars", draws.between(1, 5));
        quoted(review.name("date"), |out| push_date(out, draws));
        let text_bytes = 60 + draws.long_tailed(210.0, 5_000) as usize;
        quoted(review.name("text"), |out| push_prose(out, draws, text_bytes, true));
        review.object("votes", |votes| {
            for name in ["useful", "funny", "cool"] {
                votes.integer(name, draws.long_tailed(0.6, 3_000) as i64);
            }
        });
    });
}
