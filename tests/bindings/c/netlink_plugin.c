/* A library that uses Netlink's libnl-3, as another part of a program may. */
#include <netlink/cache.h>
#include <netlink/netlink.h>
#include <netlink/object.h>
#include <netlink/route/link.h>

/* Makes and frees one of Netlink's caches. Returns 0, or the number of the step that went wrong. */
int use_netlink(void);
int use_netlink(void) {
    struct nl_cache *cache = NULL;
    struct rtnl_link *link = rtnl_link_alloc();
    if (link == NULL || nl_cache_alloc_name("route/link", &cache) != 0) return 1;
    if (nl_cache_add(cache, (struct nl_object *)link) != 0 || nl_cache_nitems(cache) != 1) return 2;
    nl_cache_get(cache);
    nl_cache_free(cache); /* drops the second reference */
    if (nl_cache_nitems(cache) != 1 || nl_object_get_refcnt((struct nl_object *)link) < 2) return 3;
    nl_cache_free(cache); /* the cache gives up the link */
    if (nl_object_get_refcnt((struct nl_object *)link) != 1) return 4;
    rtnl_link_put(link);
    return 0;
}
