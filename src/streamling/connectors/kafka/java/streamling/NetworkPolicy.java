package streamling;

import java.net.Inet4Address;
import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.Arrays;
import java.util.regex.Pattern;

/**
 * `network.deny_private` for the connections of Kafka's clients, which learn the addresses of brokers from other brokers.
 * The process sets the system properties ({@code network/policy.py}); without them, every address is accepted.
 */
public final class NetworkPolicy {
  private static final String[] DENIED = list("streamling.network.denied");
  private static final String[] ALLOWED = list("streamling.network.allowed");

  private NetworkPolicy() {}

  /** Returns {@code addresses} if a client may connect to all of them. */
  public static InetAddress[] check(String host, InetAddress[] addresses) throws UnknownHostException {
    if (DENIED.length == 0 || isNamed(host)) {
      return addresses;
    }
    for (int i = 0; i < addresses.length; i++) {
      if (isIn(addresses[i], DENIED) && !isIn(addresses[i], ALLOWED)) {
        throw new UnknownHostException(
            host + " is the private address " + addresses[i].getHostAddress() + ", and network.deny_private is on");
      }
    }
    return addresses;
  }

  private static boolean isNamed(String host) {
    for (int i = 0; i < ALLOWED.length; i++) {
      String pattern = "\\Q" + ALLOWED[i].toLowerCase().replace("*", "\\E.*\\Q") + "\\E";
      // wildcards are for names, as in Python: "*.1" is no network
      boolean isName = ALLOWED[i].indexOf('*') < 0 || ALLOWED[i].equals("*") || !host.matches("[0-9.]+|.*:.*");
      if (isName && Pattern.compile(pattern).matcher(host.toLowerCase()).matches()) {
        return true;
      }
    }
    return false;
  }

  private static boolean isIn(InetAddress address, String[] networks) throws UnknownHostException {
    InetAddress inner = embedded(address);
    for (int i = 0; i < networks.length; i++) {
      if (isIn(address.getAddress(), networks[i]) || (inner != null && isIn(inner.getAddress(), networks[i]))) {
        return true;
      }
    }
    return false;
  }

  private static boolean isIn(byte[] address, String network) throws UnknownHostException {
    int slash = network.indexOf('/');
    String first = slash < 0 ? network : network.substring(0, slash);
    if (!first.matches("[0-9.]+|[0-9a-fA-F.]*:[0-9a-fA-F:.]*")) {
      return false; // a name: it must not be resolved
    }
    byte[] start = InetAddress.getByName(first).getAddress();
    int bits = slash < 0 ? 8 * start.length : Integer.parseInt(network.substring(slash + 1));
    if (start.length != address.length) {
      return false;
    }
    for (int bit = 0; bit < bits; bit++) {
      int mask = 0x80 >> (bit % 8);
      if ((start[bit / 8] & mask) != (address[bit / 8] & mask)) {
        return false;
      }
    }
    return true;
  }

  /** The IPv4 address that a gateway would connect to: NAT64 and 6to4. */
  private static InetAddress embedded(InetAddress address) throws UnknownHostException {
    if (!(address instanceof Inet6Address)) {
      return null;
    }
    byte[] bytes = address.getAddress();
    if (isIn(bytes, "64:ff9b::/96")) {
      return Inet4Address.getByAddress(Arrays.copyOfRange(bytes, 12, 16));
    }
    return isIn(bytes, "2002::/16") ? Inet4Address.getByAddress(Arrays.copyOfRange(bytes, 2, 6)) : null;
  }

  private static String[] list(String property) {
    String text = System.getProperty(property, "").trim();
    return text.isEmpty() ? new String[0] : text.split("\\s*,\\s*");
  }
}
