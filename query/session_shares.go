package query

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outlayhq/outlay/query/auth"
	"github.com/outlayhq/outlay/query/rest"
	"github.com/outlayhq/outlay/query/share"
	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/problem"
)

// A share link holds a token of 192 bits that is derived from the link's id and the
// signing key, so that the link can be shown again although only its hash is kept.
const (
	shareTokenBytes = 24
	sharePurpose    = "share link"
)

// Lifetimes of a share link.
const (
	defaultShareLifetime = 30 * 24 * time.Hour
	maxShareLifetime     = 10 * 365 * 24 * time.Hour
)

// shareReply is a link to a session.
type shareReply struct {
	// URL is the page to send to somebody, a path without --public-url. Token is for GET /v1/share/{token}.
	URL       string     `json:"url"`
	Token     string     `json:"token"`
	CreatedAt usage.Time `json:"created_at"`
	// ExpiresAt is null for a link without an end.
	ExpiresAt usage.Time `json:"expires_at"`
	// IncludeMetadata is whether strangers see the metadata of events.
	IncludeMetadata bool `json:"include_metadata"`
	// Views counts openings of the first page.
	Views int64 `json:"views"`
}

// shareOptions are what a link is asked to be; nil where the request leaves it open.
type shareOptions struct {
	// lifetime is 0 for a link without an end.
	lifetime *time.Duration
	// metadata is whether the link shows the metadata of events.
	metadata *bool
}

// shareSession answers the link of a session and makes one where there is none.
func (s *Server) shareSession(c *rest.Request) error {
	p := c.Params("expires_in", "include_metadata")
	options := shareOptions{lifetime: lifetime(p)}
	// Left out, any link that exists fits; false asks for one that shows none.
	if p.Values.Has("include_metadata") {
		metadata := p.Flag("include_metadata", false)
		options.metadata = &metadata
	}
	if err := p.Err(); err != nil {
		return err
	}
	if err := s.mayShare(c, options); err != nil {
		return err
	}
	id, err := sessionParam(c)
	if err != nil {
		return err
	}
	share, err := s.usage.Share(c.Ctx(), c.Who.AccountID, id, s.now())
	// A HEAD request makes nothing: it is what pages check links with.
	if errors.Is(err, usage.ErrNotFound) && c.Request.Method != http.MethodHead {
		share, err = s.createShare(c, id, options)
	}
	if err != nil {
		return storeError(err, "session")
	}
	if !options.fit(&share) {
		return shareConflict(&share, "other options")
	}
	token, ok := s.shareToken(&share)
	if !ok {
		// It still works for those who have it, but nobody can find out what it is.
		return shareConflict(&share, "a signing key that is not there any more")
	}
	return c.Reply(shareReply{
		URL: s.publicURL + "/share/" + token, Token: token, CreatedAt: share.CreatedAt, ExpiresAt: share.ExpiresAt,
		IncludeMetadata: share.IncludeMetadata, Views: share.Views,
	})
}

// mayShare refuses what the account's setting or the caller's role does not allow.
func (s *Server) mayShare(c *rest.Request, options shareOptions) error {
	// Read for each request: off has to stop links at once.
	a, err := s.ownAccounts(c).Account(c.Ctx(), c.Who.AccountID)
	if err != nil {
		return storeError(err, "account")
	}
	admin := c.Who.Role.Allows(account.Admin)
	switch {
	case a.Sharing == account.SharingOff:
		return problem.New(problem.Forbidden, "Sharing is off in this account. An owner can change that with PATCH /v1/account.")
	case a.Sharing == account.SharingAdmins && !admin:
		return problem.New(problem.Forbidden, "In this account only admins share sessions. Ask one for the link.")
	case admin:
		return nil
	case options.metadata != nil && *options.metadata:
		return problem.New(problem.Forbidden, "A link with include_metadata=true needs the role admin.")
	case options.lifetime != nil && *options.lifetime == 0:
		return problem.New(problem.Forbidden, "A link without an end (expires_in=0) needs the role admin.")
	}
	return nil
}

// fit reports whether a link is as asked for.
func (o shareOptions) fit(share *usage.Share) bool {
	var lifetime time.Duration
	if !share.ExpiresAt.IsZero() {
		lifetime = share.ExpiresAt.Sub(share.CreatedAt.Time)
	}
	return (o.lifetime == nil || *o.lifetime == lifetime) && (o.metadata == nil || *o.metadata == share.IncludeMetadata)
}

// shareConflict is returned for a link that is in force and not what was asked for.
func shareConflict(share *usage.Share, with string) error {
	path := "/v1/sessions/" + url.PathEscape(share.SessionID) + "/share"
	return problem.New(problem.Conflict, "The session has a link that was made with "+with+". Remove it with DELETE "+path+", then ask again.")
}

// lifetime reads expires_in: seconds, 0 for ever, nil unless given.
func lifetime(p *rest.Params) *time.Duration {
	value := p.Values.Get("expires_in")
	if value == "" {
		return nil
	}
	seconds, err := strconv.ParseInt(value, 10, 64)
	if err != nil || seconds < 0 || seconds > int64(maxShareLifetime/time.Second) {
		p.Faults.Add("expires_in", "must be a number of seconds from 0, which means never, to 315360000")
	}
	lifetime := time.Duration(seconds) * time.Second
	return &lifetime
}

func (s *Server) createShare(c *rest.Request, sessionID string, options shareOptions) (usage.Share, error) {
	now := s.now().UTC().Truncate(time.Microsecond)
	share := usage.Share{
		ShareID: schema.NewID(now), AccountID: c.Who.AccountID, SessionID: sessionID,
		IncludeMetadata: options.metadata != nil && *options.metadata, CreatedAt: usage.Time{Time: now},
	}
	// A link ends unless an admin asks for one that does not.
	lifetime := defaultShareLifetime
	if options.lifetime != nil {
		lifetime = *options.lifetime
	}
	if lifetime > 0 {
		share.ExpiresAt.Time = now.Add(lifetime)
	}
	// Only the hash is stored, so that whoever reads the database can open no link.
	hash := sha256.Sum256([]byte(encodeShareToken(s.keys.Derive(sharePurpose, share.ShareID)[0])))
	share.TokenSHA256 = hash[:]
	// The store writes the line only when it makes the link, and not when another request was first.
	act, err := s.newAct(c, "session.share", sessionID, map[string]any{"expires_at": share.ExpiresAt, "include_metadata": share.IncludeMetadata})
	if err != nil {
		return usage.Share{}, err
	}
	return s.usage.CreateShare(c.Ctx(), &share, act)
}

// encodeShareToken writes the first bytes of a derived secret as a token.
func encodeShareToken(secret [sha256.Size]byte) string {
	return base64.RawURLEncoding.EncodeToString(secret[:shareTokenBytes])
}

// shareToken returns the token of a link. ok is false when no key of ours gives
// the one that the link was made with.
func (s *Server) shareToken(share *usage.Share) (token string, ok bool) {
	// The keys of now and those before them: a link survives the rotation of the signing key.
	for _, secret := range s.keys.Derive(sharePurpose, share.ShareID) {
		token := encodeShareToken(secret)
		if hash := sha256.Sum256([]byte(token)); slices.Equal(hash[:], share.TokenSHA256) {
			return token, true
		}
	}
	return "", false
}

// unshareSession ends the link of a session: its maker does, or an admin.
func (s *Server) unshareSession(c *rest.Request) error {
	id, err := sessionParam(c)
	if err != nil {
		return err
	}
	act, err := s.newAct(c, "session.unshare", id, struct{}{})
	if err != nil {
		return err
	}
	err = s.usage.RevokeShare(c.Ctx(), c.Who.AccountID, id, act, func(share *usage.Share) error {
		if c.Who.Role.Allows(account.Admin) || share.CreatedBy != nil && *share.CreatedBy == c.Who.UserID {
			return nil
		}
		return problem.New(problem.Forbidden, "Only who made the link, or an admin, may remove it.")
	})
	if err != nil {
		return storeError(err, "share link")
	}
	c.Status(http.StatusNoContent)
	return nil
}

// sharedSession answers the session of a link, to anybody.
func (s *Server) sharedSession(c *rest.Request) error {
	view, err := s.openTimeline(c, c.Params("limit", "cursor"))
	if err != nil {
		return err
	}
	steps := make([]sharedStep, len(view.timeline.Steps))
	for i := range steps {
		steps[i] = newSharedStep(&view.timeline.Steps[i], view.share.IncludeMetadata)
	}
	return c.Reply(timelineReply[sharedStep]{newSessionReply(&view.timeline.Session), steps, view.next})
}

// sharePolicy lets the page load its own style sheet and nothing else.
const sharePolicy = "default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// sharePage answers the session of a link as a page for people. To a browser it also
// says as a page why there is none.
func (s *Server) sharePage(c *rest.Request) error {
	err := s.showSession(c)
	if err == nil || !strings.Contains(c.GetHeader("Accept"), "text/html") {
		return err
	}
	s.report(c.Context, err)
	return s.showNotice(c, problem.From(err))
}

// showNotice answers a problem as a page.
func (s *Server) showNotice(c *rest.Request, p *problem.Problem) error {
	notice := share.Notice{Title: p.Code.Title(), Detail: p.Detail}
	switch p.Code {
	case problem.NotFound:
		notice.Title = "This link leads nowhere"
		notice.Detail = "It has expired, was revoked, or was not copied whole. Ask whoever sent it to you for another one."
	case problem.RateLimited:
		notice.Title = "One moment, please"
		c.Header("Retry-After", strconv.Itoa(p.RetrySeconds()))
	// Only the query string can be wrong of such an address.
	case problem.Invalid:
		notice.Title, notice.Detail = "This address is not right", "Take the end of it off, from the question mark on, to see the session from its start."
	}
	page, err := s.sharePages.Notice(notice)
	if err != nil {
		return err
	}
	c.Header("Content-Security-Policy", sharePolicy)
	c.Data(p.Code.Status(), "text/html; charset=utf-8", page)
	return nil
}

// showSession answers the page for people.
func (s *Server) showSession(c *rest.Request) error {
	p := c.Params("limit", "cursor")
	view, err := s.openTimeline(c, p)
	if err != nil {
		return err
	}
	session := share.Session{
		Timeline: &view.timeline, IncludeMetadata: view.share.IncludeMetadata, ExpiresAt: view.share.ExpiresAt,
	}
	// The limit goes along, so that all pages have the same length.
	if view.next != nil {
		query := url.Values{"cursor": {*view.next}, "limit": p.Values["limit"]}
		session.Next = "?" + query.Encode()
	}
	page, err := s.sharePages.Page(&session)
	if err != nil {
		return err
	}
	c.Header("Content-Security-Policy", sharePolicy)
	c.Data(http.StatusOK, "text/html; charset=utf-8", page)
	return nil
}

// shareStyle answers the style sheet of the pages.
func (s *Server) shareStyle(c *rest.Request) error {
	c.Header("Cache-Control", "public, max-age=300")
	c.Data(http.StatusOK, "text/css; charset=utf-8", share.Style())
	return nil
}

// sharedView is a page of the session of a link.
type sharedView struct {
	share    usage.Share
	timeline usage.Timeline
	next     *string
}

// openTimeline reads what a link shows. Opening the first page counts as a view.
func (s *Server) openTimeline(c *rest.Request, p *rest.Params) (view sharedView, err error) {
	c.Header("X-Robots-Tag", "noindex, nofollow")
	c.Header("Cache-Control", "private, no-store")
	limit, after := p.Limit(), rest.ReadCursor(c, p, (*stepPosition).valid)
	if err := p.Err(); err != nil {
		return view, err
	}
	views := 0
	// Turning pages is one view.
	if after == nil && c.Request.Method != http.MethodHead {
		views = 1
	}
	if view.share, err = s.openShare(c, views); err != nil {
		return view, deadLinkOr(err)
	}
	// The link names account and session; nothing of the address goes into the statement but its hash.
	view.timeline, err = s.usage.Session(c.Ctx(), view.share.AccountID, view.share.SessionID, after.place(), limit)
	if err != nil {
		return view, deadLinkOr(err)
	}
	view.next, err = stepCursor(c, p, view.timeline.Next)
	return view, err
}

// deadLinkOr makes of an error what a stranger may see.
func deadLinkOr(err error) error {
	if errors.Is(err, usage.ErrNotFound) {
		return problem.New(problem.NotFound, "There is no such link: it has expired, was revoked, or was not copied whole.")
	}
	return storeError(err, "share link")
}

// openShare looks the token of the address up. What cannot be a token is not
// looked up. A network that has tried too many links that do not exist is let
// through to those that were opened before: it may be that of many people.
func (s *Server) openShare(c *rest.Request, views int) (usage.Share, error) {
	token, network := c.Param("token"), auth.Network(c.ClientIP())
	secret, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(secret) != shareTokenBytes {
		return usage.Share{}, cmp.Or(tooManyLinks(s.shareMisses.take(network, shareMissesPerMinute).wait), usage.ErrNotFound)
	}
	hash := sha256.Sum256([]byte(token))
	// look does not count: only links that do not exist do, below.
	if wait := s.shareMisses.look(network, shareMissesPerMinute).wait; wait > 0 && !s.goodShares.has(hash) {
		return usage.Share{}, tooManyLinks(wait)
	}
	// One link by itself, from this network: a page that many people watch is not held up for others.
	if wait := s.shareViews.take(network+" "+string(hash[:]), shareViewsPerMinute).wait; wait > 0 {
		return usage.Share{}, tooManyLinks(wait)
	}
	share, err := s.usage.OpenShare(c.Ctx(), hash[:], s.now(), views)
	switch {
	case err == nil:
		s.goodShares.add(hash)
	case errors.Is(err, usage.ErrNotFound):
		// The link has ended since, and must not let its network through any more.
		s.goodShares.remove(hash)
		s.shareMisses.take(network, shareMissesPerMinute)
	}
	return share, err
}

// tooManyLinks returns the refusal of a link that has to wait, nil for one that need not.
func tooManyLinks(wait time.Duration) error {
	if wait <= 0 {
		return nil
	}
	return &problem.Problem{Code: problem.RateLimited, RetryAfter: wait, Detail: "Too many links were opened from this address. Wait a moment."}
}
