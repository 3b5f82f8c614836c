package query

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outlayhq/outlay/query/usage"
)

// What is written field by field is what the json tags say: the same fields with the
// same values, whatever they hold, and none is forgotten.
func TestFieldByFieldIsWhatTheTagsSay(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 500 {
		var step usage.Step
		var bucket bucketReply
		var session sessionReply
		fillAtRandom(reflect.ValueOf(&step).Elem(), random)
		fillAtRandom(reflect.ValueOf(&bucket).Elem(), random)
		fillAtRandom(reflect.ValueOf(&session).Elem(), random)
		// The database has no event without a list of tags, and no session without one of agents.
		if step.Tags == nil {
			step.Tags = []string{}
		}
		if session.Agents == nil {
			session.Agents = []string{}
		}
		sameJSON(t, step.Event, appendEvent(nil, &step.Event))
		sameJSON(t, step, appendStep(nil, &step))
		sameJSON(t, bucket, appendBucket(nil, &bucket))
		sameJSON(t, session, appendSession(nil, &session))
	}
}

func sameJSON(t *testing.T, value any, got []byte) {
	t.Helper()
	want, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var a, b any
	if err := json.Unmarshal(want, &a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(got, &b); err != nil {
		t.Fatalf("%v: %s", err, got)
	}
	if diff := cmp.Diff(a, b); diff != "" {
		t.Fatalf("%T (-tags +field by field):\n%s", value, diff)
	}
}

// fillAtRandom fills in every field that can be set; a third of the pointers stay nil.
func fillAtRandom(v reflect.Value, random *rand.Rand) {
	texts := []string{"", "a", "ä\"\\</script>&\u2028", "日本\U0001F600", "new\nline\tand\x01"}
	if !v.CanInterface() { // an embedded struct of this package
		for i := range v.NumField() {
			fillAtRandom(v.Field(i), random)
		}
		return
	}
	switch target := v.Addr().Interface().(type) {
	case *json.RawMessage:
		*target = json.RawMessage([]string{"{}", `{"a": [1, {"b": "<"}]}`}[random.IntN(2)])
		return
	case *usage.Time:
		target.Time = time.UnixMicro(random.Int64N(1 << 52)).UTC().Truncate([]time.Duration{1, time.Millisecond, time.Second}[random.IntN(3)])
		return
	case *usage.Sum:
		*target = usage.NewSum(random.Int64N(1<<62) - 1<<40)
		if random.IntN(2) == 0 {
			larger := *target
			target.Add(&larger)
			target.Add(&larger)
			target.Add(target)
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fillAtRandom(v.Field(i), random)
		}
	case reflect.Pointer:
		if random.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fillAtRandom(v.Elem(), random)
		}
	case reflect.String:
		v.SetString(texts[random.IntN(len(texts))])
	case reflect.Int64:
		v.SetInt(random.Int64() >> random.IntN(60))
	case reflect.Bool:
		v.SetBool(random.IntN(2) == 0)
	case reflect.Array:
		for i := range v.Len() {
			v.Index(i).SetUint(uint64(random.IntN(256)))
		}
	case reflect.Slice:
		for range random.IntN(4) {
			v.Set(reflect.Append(v, reflect.ValueOf(texts[random.IntN(len(texts))])))
		}
	default:
		panic("BUG: no value for " + v.Type().String())
	}
}
