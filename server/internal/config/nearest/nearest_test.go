package nearest

import "testing"

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"abc", "acb", 1}, {"abcd", "abd", 1}, {"kitten", "sitting", 3}, {"abcdef", "ghijkl", 6}} {
		if got := distance(tt.a, tt.b, 10); got != tt.want {
			t.Errorf("%s, %s: got %d", tt.a, tt.b, got)
		}
		if got := distance(tt.b, tt.a, 10); got != tt.want {
			t.Errorf("%s, %s: got %d", tt.b, tt.a, got)
		}
	}
}

func TestOf(t *testing.T) {
	names := []string{"publish", "presence", "presence_stats", "map_publish"}
	for name, want := range map[string]string{"publsh": "publish", "presenc": "presence", "presence_stat": "presence_stats", "block_user": "", "": ""} {
		if got := Of(name, names); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
