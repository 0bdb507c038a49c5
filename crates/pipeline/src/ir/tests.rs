use std::sync::Arc;

use arrow::array::ArrayRef;
use thermocline_predicate::{Domain, Scalar};

use super::*;

const MONEY: ValueType = ValueType::Decimal { precision: 15, scale: 2 };

/// A builder with a slot of each of these types.
fn scan(types: &[ValueType]) -> (PipelineBuilder, Vec<Slot>) {
    let mut builder = PipelineBuilder::new();
    let slots = types
        .iter()
        .enumerate()
        .map(|(number, value_type)| builder.scan(format!("c{number}"), number, *value_type, number == 0).unwrap())
        .collect();
    (builder, slots)
}

fn table(key_type: ValueType) -> TableShape {
    let payload = vec![ColumnShape { name: "p".to_owned(), value_type: ValueType::Text, nullable: true }];
    TableShape { name: "t".to_owned(), key_types: vec![key_type], payload }
}

fn message<T: std::fmt::Debug>(result: Result<T, PipelineError>) -> String {
    result.unwrap_err().to_string()
}

fn binary(operator: Operator, left: Slot, right: Slot) -> Expression {
    Expression::binary(operator, Expression::Slot(left), Expression::Slot(right))
}

#[test]
fn a_pipeline_is_shown_line_by_line() {
    let (mut builder, slots) = scan(&[ValueType::Int32, MONEY, ValueType::Text]);
    builder.filter(slots[2], Domain::point(Scalar::from("x"))).unwrap();
    let added = builder.probe(&table(ValueType::Int32), slots[0], ProbeKind::Inner, &[0]).unwrap();
    builder.probe(&table(ValueType::Int64), slots[0], ProbeKind::Semi, &[]).unwrap();
    let square = builder.compute("square", binary(Operator::Multiply, slots[1], slots[1])).unwrap();
    let pipeline = builder.aggregate(vec![added[0]], vec![Aggregate::CountRows, Aggregate::Sum(square)]).unwrap();
    assert_eq!(
        pipeline.to_string(),
        "scan c0: int32? #0, c1: decimal(15, 2) #1, c2: text #2\nfilter c2 = 'x'\nprobe t with c0 for p\n\
         semi-probe t with c0\ncompute square = (c1 * c1)\naggregate count(*), sum(square) by p"
    );
    assert_eq!(pipeline.slot(square).value_type, ValueType::Decimal { precision: 31, scale: 4 });
    assert_eq!(pipeline.output()[2].value_type, ValueType::Decimal { precision: 38, scale: 4 });
    assert!(pipeline.slot(added[0]).nullable && !pipeline.slot(square).nullable);
}

#[test]
fn conditions_are_shown_as_sql_and_conjunctions_become_steps() {
    let (mut builder, slots) = scan(&[ValueType::Int32, MONEY, ValueType::Text, ValueType::Text]);
    let is_in = |slot: Slot, value: Scalar| Condition::In { slot, domain: Domain::point(value) };
    let twice = binary(Operator::Add, slots[0], slots[0]);
    let one = Expression::Literal { value: 1, value_type: ValueType::Int32 };
    let either = Condition::Any(vec![
        Condition::All(vec![
            is_in(slots[2], Scalar::from("x")),
            Condition::compare(Comparison::GreaterOrEqual, twice, one),
        ]),
        Condition::Not(Box::new(Condition::IsNull(slots[1]))),
    ]);
    let texts = Condition::compare(Comparison::NotEqual, Expression::Slot(slots[2]), Expression::Slot(slots[3]));
    builder.condition(Condition::All(vec![is_in(slots[0], Scalar::Int(7)), texts, either])).unwrap();
    builder.probe(&table(ValueType::Text), slots[2], ProbeKind::Outer, &[0]).unwrap();
    builder.probe(&table(ValueType::Text), slots[3], ProbeKind::Anti, &[]).unwrap();
    builder.probe(&table(ValueType::Text), slots[3], ProbeKind::NullAwareAnti, &[]).unwrap();
    let pipeline = builder.build("both", [slots[0], slots[2]], vec![slots[1]]).unwrap();
    assert!(
        pipeline.to_string().ends_with(
            "filter c0 = 7\nfilter c2 <> c3\nfilter ((c2 = 'x' AND (c0 + c0) >= int32 1) OR NOT (c1 IS NULL))\n\
             outer probe t with c2 for p\nanti-probe t with c3\nnull-aware anti-probe t with c3\n\
             build both by c0, c2 with c1"
        ),
        "{pipeline}"
    );
    assert_eq!(pipeline.table_shape().unwrap().key_types, [ValueType::Int32, ValueType::Text]);
}

#[test]
fn a_table_has_the_shape_that_its_pipeline_says() {
    let (builder, slots) = scan(&[ValueType::Date, ValueType::Text]);
    let pipeline = builder.build("days", slots[0], vec![slots[1]]).unwrap();
    let shape = pipeline.table_shape().unwrap();
    assert_eq!((shape.name.as_str(), shape.key_types, shape.payload.len()), ("days", vec![ValueType::Date], 1));
    assert!(pipeline.to_string().ends_with("build days by c0 with c1"), "{pipeline}");
    let (builder, slots) = scan(&[ValueType::Date]);
    assert_eq!(builder.materialise(slots).unwrap().table_shape(), None);
}

#[test]
fn what_cannot_be_expressed_is_refused_with_the_reason() {
    let types = [ValueType::Int32, ValueType::Int64, MONEY, ValueType::Text, ValueType::Date, ValueType::UInt8];
    let (mut builder, slots) = scan(&types);
    let [int32, int64, money, text, date, _] = slots[..] else { panic!("six slots") };
    let mut refused = |expression| message(builder.compute("x", expression));
    assert!(refused(binary(Operator::Add, int32, int64)).contains("int32 + int64 is not computed"));
    assert!(refused(binary(Operator::Add, date, date)).contains("or two integers or floats of one type"));
    assert!(refused(Expression::Slot(text)).contains("c3 is a text"));
    assert!(refused(Expression::Slot(int64).cast(ValueType::Int32)).contains("int64 is not cast to int32"));
    assert!(refused(Expression::Literal { value: 300, value_type: ValueType::UInt8 }).contains("300 is no uint8"));
    let power = |times: usize| {
        (0..times)
            .fold(Expression::Slot(money), |of, _| Expression::binary(Operator::Multiply, of, Expression::Slot(money)))
    };
    assert!(refused(power(20)).contains("40 digits behind the point"));

    let mut builder = scan(&types).0;
    assert!(message(builder.filter(text, Domain::point(Scalar::Int(3)))).contains("cannot be compared with a integer"));
    assert!(message(builder.filter(int32, Domain::point(Scalar::from("3")))).contains("c0 is of type int32"));
    assert!(message(builder.probe(&table(ValueType::Int32), text, ProbeKind::Inner, &[])).contains("the table's key"));
    assert!(
        message(builder.probe(&table(ValueType::Int32), money, ProbeKind::Inner, &[])).contains("or a text as key")
    );
    let two_keys = builder.probe(&table(ValueType::Int32), [int32, int32], ProbeKind::Inner, &[]);
    assert!(message(two_keys).contains("the key has 2 columns, expected 1"));
    let two_keys = TableShape { key_types: vec![ValueType::Int32; 2], ..table(ValueType::Int32) };
    let not_in = builder.probe(&two_keys, [int32, int32], ProbeKind::NullAwareAnti, &[]);
    assert!(message(not_in).contains("the key has 2 columns, expected 1"));
    assert!(message(builder.probe(&table(ValueType::Int32), date, ProbeKind::Inner, &[])).contains("the table's key"));
    assert!(
        message(builder.probe(&table(ValueType::Int32), int64, ProbeKind::Inner, &[1]))
            .contains("none with the number 1")
    );
    assert!(
        message(builder.probe(&table(ValueType::Int32), int64, ProbeKind::Semi, &[0]))
            .contains("this kind (semi-probe) gives no payload")
    );
    assert!(message(builder.probe(&table(ValueType::Int32), int64, ProbeKind::Anti, &[0])).contains("(anti-probe)"));
    assert!(message(builder.filter(Slot::at(99), Domain::all())).contains("slot 99 is not there: the pipeline has 6"));
    let compared = |left, right| Condition::compare(Comparison::Less, Expression::Slot(left), Expression::Slot(right));
    let mut refused = |condition| message(builder.condition(condition));
    assert!(refused(compared(int32, int64)).contains("int32 < int64 is not compared"));
    assert!(refused(Condition::Not(Box::new(compared(text, int64)))).contains("text < int64"));
    assert!(refused(Condition::Any(Vec::new())).contains("no parts"));
    let one = || Expression::Literal { value: 1, value_type: ValueType::Int32 };
    assert!(refused(Condition::compare(Comparison::Equal, one(), one())).contains("constants alone"));
    let of_text = Condition::In { slot: text, domain: Domain::point(Scalar::Int(3)) };
    assert!(refused(Condition::All(vec![of_text])).contains("cannot be compared with a integer"));
    let too_precise = ValueType::Decimal { precision: 39, scale: 0 };
    assert!(message(builder.scan("d", 0, too_precise, false)).contains("1 to 38 digits"));

    let sink = |aggregate| message(scan(&types).0.aggregate(vec![], vec![aggregate]));
    assert!(sink(Aggregate::WideSum(text)).contains("an integer, a decimal or a float"));
    assert!(refused_division().contains("decimals are not divided"));
    assert!(sink(Aggregate::Sum(date)).contains("c4 is of type date"));
    assert!(sink(Aggregate::Sum(text)).contains("c3 is of type text"));
    let (builder, slots) = scan(&[ValueType::Decimal { precision: 19, scale: 0 }]);
    assert!(message(builder.clone().aggregate(slots.clone(), vec![])).contains("18 digits to group by"));
    assert!(message(builder.clone().build("t", slots[0], vec![])).contains("as key"));
    assert!(message(builder.build("t", [], vec![])).contains("the key has 0 columns"));
}

fn refused_division() -> String {
    let (mut builder, slots) = scan(&[MONEY]);
    message(builder.compute("x", binary(Operator::Divide, slots[0], slots[0])))
}

#[test]
fn a_refused_step_leaves_the_builder_as_it_was() {
    let (mut builder, slots) = scan(&[ValueType::Int32, ValueType::Text]);
    let before = builder.clone().materialise(slots.clone()).unwrap();
    builder.probe(&table(ValueType::Int32), slots[0], ProbeKind::Inner, &[0, 1]).unwrap_err();
    builder.filter(slots[1], Domain::point(Scalar::Int(1))).unwrap_err();
    builder.compute("x", Expression::Slot(slots[1])).unwrap_err();
    assert_eq!(builder.materialise(slots).unwrap(), before);
}

#[test]
fn parameters_are_bound_to_values_of_their_type() {
    let parameter = |number: usize| Expression::Parameter { number, value_type: MONEY };
    let literal = |value: i128, value_type: ValueType| Expression::Literal { value, value_type };
    let pipeline = |values: [Expression; 2]| {
        let (mut builder, slots) = scan(&[ValueType::Int32, MONEY]);
        let [first, second] = values;
        let one = literal(1, MONEY);
        let sum = Expression::binary(Operator::Add, Expression::Slot(slots[1]), first.clone());
        let below = Condition::compare(Comparison::Less, sum, second.clone());
        let case = Expression::Case { branches: vec![(below.clone(), first)], otherwise: Some(Box::new(one)) };
        let case = builder.compute("case", case).unwrap();
        builder.condition(Condition::Any(vec![Condition::Not(Box::new(below)), Condition::IsNull(slots[0])])).unwrap();
        builder.aggregate(Vec::new(), vec![Aggregate::Sum(case)]).unwrap()
    };
    let unbound = pipeline([parameter(0), parameter(1)]);
    assert!(unbound.to_string().contains("(c1 + decimal(15, 2) $0) < decimal(15, 2) $1"), "{unbound}");
    let values = [literal(150, MONEY), literal(-7, MONEY)];
    assert_eq!(unbound.bound(&values).unwrap().steps(), pipeline(values.clone()).steps());
    let wrong = [literal(150, MONEY), literal(-7, ValueType::Int32)];
    for values in [&values[..1], &wrong[..]] {
        assert_eq!(message(unbound.bound(values)), "parameter $1 has no value of type decimal(15, 2)");
    }
    let (mut builder, _) = scan(&[]);
    let text = Expression::Parameter { number: 0, value_type: ValueType::Text };
    assert_eq!(message(builder.compute("t", text)), "parameter $0 is a text");
}

#[test]
fn what_may_fail_is_told_by_types_and_constants() {
    let wide = ValueType::Decimal { precision: 30, scale: 2 };
    let (builder, slots) = scan(&[ValueType::Int32, ValueType::Float64, MONEY, wide]);
    let pipeline = builder.materialise(slots.clone()).unwrap();
    let [int, float, money, wide] = [slots[0], slots[1], slots[2], slots[3]];
    let by = |value: i128| {
        let literal = Expression::Literal { value, value_type: ValueType::Int32 };
        Expression::binary(Operator::Divide, Expression::Slot(int), literal)
    };
    let of_wide = ValueType::Decimal { precision: 38, scale: 2 };
    for (expression, may_fail) in [
        (binary(Operator::Multiply, int, int), false),
        (binary(Operator::Divide, int, int), true),
        (binary(Operator::Remainder, int, int), true),
        (by(7), false),
        (by(0), true),
        (by(-1), true),
        (binary(Operator::Divide, float, float), false),
        (binary(Operator::Multiply, money, money), false),
        (binary(Operator::Add, wide, money), false),
        (binary(Operator::Multiply, wide, money), true),
        (Expression::Slot(wide).cast(of_wide), false),
        (Expression::Slot(float).cast(of_wide), true),
        (Expression::binary(Operator::Add, Expression::Slot(int), by(0)), true),
    ] {
        assert_eq!(expression.may_fail(pipeline.slots()), may_fail, "{expression:?}");
        let condition = Condition::compare(Comparison::Less, expression.clone(), expression);
        let condition = Condition::Not(Box::new(Condition::Any(vec![Condition::IsNull(int), condition])));
        assert_eq!(condition.may_fail(pipeline.slots()), may_fail);
    }
}

#[test]
fn texts_that_are_made_of_others_are_not_compared() {
    let map = || TextMap::new("upper(c0)", |texts: &ArrayRef| Ok(Arc::clone(texts)));
    let (mut builder, slots) = scan(&[ValueType::Text]);
    let made = builder.scan_mapped(0, map(), true).unwrap();
    let refused = "upper(c0) is made of a text, and not compared";
    let domain = Domain::point(Scalar::from("x"));
    assert_eq!(message(builder.filter(made, domain.clone())), refused);
    assert_eq!(message(builder.condition(Condition::In { slot: made, domain })), refused);
    let comparison = Condition::compare(Comparison::Less, Expression::Slot(slots[0]), Expression::Slot(made));
    assert_eq!(message(builder.condition(comparison)), refused);
    let test = TextTest::new("t", None, |_: &ArrayRef| Err("no".into()));
    assert_eq!(message(builder.condition(Condition::Text { slot: made, test })), refused);
    assert_eq!(message(builder.probe(&table(ValueType::Text), made, ProbeKind::Semi, &[])), refused);
    assert_eq!(message(builder.clone().build("t", made, Vec::new())), refused);
    for aggregate in [Aggregate::Minimum(made), Aggregate::Maximum(made)] {
        assert_eq!(message(builder.clone().aggregate(Vec::new(), vec![aggregate])), refused);
    }
    let pipeline = builder.aggregate(vec![made], vec![Aggregate::Count(made)]).unwrap();
    assert_eq!(pipeline.to_string(), "scan c0: text? #0, upper(c0): text? #0\naggregate count(upper(c0)) by upper(c0)");
}
