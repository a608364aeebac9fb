package dictionary

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"slices"
	"strings"
)

// Sample is an example of many similar messages.
type Sample struct {
	// Source names the owner of the message, such as a user. Texts of too few sources, such as private ones, stay out of
	// the dictionary. Empty: each sample is a source of its own.
	Source string
	Text   []byte
}

// Options of Train. All fields are set.
type Options struct {
	Size int
	// Sources is the number of sources that a text must be from.
	Sources int
}

// gram is the least length of texts, in bytes. Shorter ones save next to nothing.
const gram = 8

// Train returns a dictionary of the texts that save most bytes in messages like the samples. It may be empty.
func Train(samples []Sample, o Options) []byte {
	t := trainer{samples: samples, need: o.Sources}
	t.begin()
	return assemble(t.texts(), o.Size)
}

type trainer struct {
	samples []Sample
	need    int
	seed    maphash.Seed
	of      []int32          // the number of the source of each sample
	grams   map[uint64]tally // by hash: two texts of one hash are told apart later, when whole texts are counted
}

type tally struct {
	count int32
	last  int32
}

func (c tally) with(source int32) tally {
	if c.last != source {
		c.count, c.last = c.count+1, source
	}
	return c
}

func (t *trainer) begin() {
	t.seed = maphash.MakeSeed()
	t.number()
	t.countGrams()
}

func (t *trainer) number() {
	sorted := slices.Clone(t.samples)
	slices.SortStableFunc(sorted, func(a, b Sample) int { return cmp.Compare(a.Source, b.Source) })
	t.samples = sorted
	for i, s := range sorted {
		n := int32(1)
		if i > 0 {
			n = t.of[i-1]
			if s.Source == "" || s.Source != sorted[i-1].Source {
				n++
			}
		}
		t.of = append(t.of, n)
	}
}

func (t *trainer) countGrams() {
	t.grams = make(map[uint64]tally)
	for i, s := range t.samples {
		for at := 0; at+gram <= len(s.Text); at++ {
			h := maphash.Bytes(t.seed, s.Text[at:at+gram])
			t.grams[h] = t.grams[h].with(t.of[i])
		}
	}
}

type text struct {
	text    string
	sources int
	uses    int
}

func (x text) gain() int { return x.uses * (len(x.text) - 3) } // a reference takes about three bytes

// texts counts whole texts, and halves them as long as they are too rare: a text with frequent grams only may be rare.
func (t *trainer) texts() (found []text) {
	pending := make(map[string]struct{})
	for _, s := range t.samples {
		t.runs(s.Text, func(run []byte) { pending[string(run)] = struct{}{} })
	}
	done := make(map[string]bool)
	for len(pending) > 0 {
		next := make(map[string]struct{})
		for s, x := range t.count(pending) {
			switch {
			case done[s]:
			case x.sources >= t.need:
				found = append(found, x)
			default:
				for _, half := range []string{s[:len(s)/2], s[len(s)/2:], s[len(s)/4 : len(s)-len(s)/4]} {
					if len(half) >= gram && !done[half] {
						next[half] = struct{}{}
					}
				}
			}
			done[s] = true
		}
		pending = next
	}
	return found
}

// runs calls f with the longest parts of p that consist of frequent grams only.
func (t *trainer) runs(p []byte, f func(run []byte)) {
	start := -1
	for at := 0; at+gram <= len(p); at++ {
		frequent := int(t.grams[maphash.Bytes(t.seed, p[at:at+gram])].count) >= t.need
		switch {
		case frequent && start < 0:
			start = at
		case !frequent && start >= 0:
			f(p[start : at-1+gram])
			start = -1
		}
	}
	if start >= 0 {
		f(p[start:])
	}
}

func (t *trainer) count(texts map[string]struct{}) map[string]text {
	byGram := make(map[string][]string)
	counts := make(map[string]tally)
	uses := make(map[string]int)
	for s := range texts {
		byGram[s[:gram]] = append(byGram[s[:gram]], s)
	}
	for i, sample := range t.samples {
		for at := 0; at+gram <= len(sample.Text); at++ {
			for _, s := range byGram[string(sample.Text[at:at+gram])] {
				if bytes.HasPrefix(sample.Text[at:], []byte(s)) {
					counts[s] = counts[s].with(t.of[i])
					uses[s]++
				}
			}
		}
	}
	result := make(map[string]text, len(texts))
	for s := range texts {
		result[s] = text{s, int(counts[s].count), uses[s]}
	}
	return result
}

// assemble joins the texts that gain most, the best one at the end, where references are the shortest. A text within
// another one adds nothing.
func assemble(texts []text, size int) []byte {
	slices.SortFunc(texts, func(a, b text) int { return cmp.Or(b.gain()-a.gain(), strings.Compare(a.text, b.text)) })
	var chosen []string
	left := size
	for _, x := range texts {
		if len(x.text) <= left && !slices.ContainsFunc(chosen, func(c string) bool { return strings.Contains(c, x.text) }) {
			chosen = append(chosen, x.text)
			left -= len(x.text)
		}
	}
	slices.Reverse(chosen)
	return []byte(strings.Join(chosen, ""))
}
